"""What a fit says to others: a paragraph on methods, and receipts that anybody can check without the data."""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpstats
from dpstats import __version__
from dpstats.errors import DPStatsError, refuse
from dpstats.privacy import events as kinds
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.totals import covers

if TYPE_CHECKING:
    from dpstats.privacy.events import Event
    from dpstats.privacy.plan import Plan

__all__ = ["Receipt", "verify_receipt"]


# Results of checks


@dataclass(frozen=True, slots=True)
class Check:
    """One checked fact.

    Attributes
    ----------
    name : str
    passed : bool
    found : str
        Description of the result.
    """

    name: str
    passed: bool
    found: str


def as_text(checks: Sequence[Check]) -> str:
    """Return a line for each check."""
    width = max(len(check.name) for check in checks)
    return "\n".join(f"{'ok' if check.passed else 'FAILED':8}{check.name:{width}}  {check.found}" for check in checks)


# Methods


def write_methods(
    name: str,
    plan: ReleasePlan,
    guarantee: PrivacyGuarantee,
    parameters: Sequence[tuple[str, str]],
    estimand: str | None,
    null: str | None,
    notes: Sequence[str] = (),
    sources: str | None = None,
    total: str | None = None,
) -> str:
    """Return the paragraph on one release.

    Parameters
    ----------
    name : str
        Name of the estimator.
    plan : ReleasePlan
    guarantee : PrivacyGuarantee
        Guarantee of the fit.
    parameters : sequence of (name, value)
        Parameters that differ from their defaults.
    estimand : str, optional
        Estimand of the intervals; None if there are no intervals.
    null : str, optional
        Null hypothesis of a test.
    notes : sequence of str
        Notes of the summary, whose assumptions the paragraph states.
    sources : str, optional
        The origin of the public parameters, as a phrase.
    total : str, optional
        Guarantee of all releases from the data.
    """
    given = ", ".join(f"{key} = {value}" for key, value in parameters)
    given = given and f" Its parameters were {given}."
    sentences = [
        f"We used {name} of dpstats {__version__}.{given}",
        f"The fit satisfies differential privacy with {replace(guarantee, simulated=False)}.",
    ]
    if guarantee.neighbors is Neighbors.REPLACE_ONE:
        sentences.append(f"The number of {guarantee.units}, {plan.n_given:,}, is public.")
    else:
        sentences.append(f"The number of {guarantee.units} is private.")
    if plan.counted is not None:
        sentences.append(
            "Rows with a missing entry were left out. The number of complete rows was released first, and a random "
            f"sample of {plan.n_samples:,} of them was used."
        )
    steps = [_step(stage.describe(plan.n_features)) for stage in plan._listed]
    sentences.append(f"The release consisted of {'; '.join(steps)}.")
    sentences.append(
        "The noise was simulated with a seed: these results are not a private release."
        if guarantee.simulated
        else "Exact noise was drawn from the entropy source of the operating system."
    )
    if estimand is not None:
        sentences.append(f"Confidence intervals account for the privacy noise and cover {estimand}.")
    if null is not None:
        sentences.append(f"The p-value accounts for the privacy noise. The null hypothesis is: {null}.")
    sentences += find_assumptions(notes)
    if sources is not None:
        sentences.append(f"Public parameters, such as bounds, are from {sources}.")
    sentences.append(
        "The guarantee is of this release alone."
        if total is None
        else f"All releases from these data together satisfy differential privacy with {total}."
    )
    return " ".join(sentences)


_ASSUMPTION = re.compile(r"\bassum(e|es|ed|ing|ptions?)\b(?!=)|\bcount as randomized\b|\bby a linear model\b")
_DOUBT = re.compile(r"\bmay (cover|miss|undercover|reject|be (too|below|rejected))\b|\bundercover\b|\bREFUTED\b")
"""Words of a reason why an answer may be wrong more often than it states."""


def find_assumptions(notes: Sequence[str]) -> list[str]:
    """Return the sentences of notes that state an assumption, or why answers may be wrong more often than they state.

    A sentence of the second kind follows the sentences before it, which name what it is about.

    Examples
    --------
    >>> from dpstats.release.receipts import find_assumptions
    >>> find_assumptions(["Rows are private. Intervals assume independent rows. Set assume='mean'."])
    ['Intervals assume independent rows.']
    >>> find_assumptions(["Few rows in a. Intervals there may undercover. Use more rows."])
    ['Few rows in a.', 'Intervals there may undercover.']
    """
    found = []
    for note in notes:
        sentences = re.split(r"(?<=[.:]) (?=[A-Z])", note)
        last = max((place for place, sentence in enumerate(sentences) if _DOUBT.search(sentence)), default=-1)
        found += [each for place, each in enumerate(sentences) if place <= last or _ASSUMPTION.search(each)]
    return found


def _step(description: str) -> str:
    """Return the description of a release step on one line, with its parts in brackets."""
    head, *parts = (line.strip() for line in description.splitlines())
    return f"{head.removesuffix(':')} ({'; '.join(parts)})" if parts else head


# Receipts

# A receipt states the plan of a fit, its privacy cost, the released numbers, the versions and the hashes of the proof
# pages. A check recomputes the cost from the plan's events. It cannot show that the release followed the plan, or that
# the declared bounds did not come from the data.

# A signature is an HMAC with SHA-256 and a secret key. It proves that a holder of the key wrote the receipt and that it
# has not changed since. Every holder can sign, the one who checks too: it proves nothing to a third person.

_FORMAT = "dpstats receipt, version 1"
_PACKAGES = ("numpy", "scipy", "opendp", "dp-accounting")
_CONTENT = ("format", "made", "released_by", "plan", "events", "guarantee", "result", "versions", "proofs")
_KINDS = ("Approximate", "BoundedRange", "DiscreteLaplace", "Gaussian", "Pure", "ZCDP")
_SHORTEST_KEY = 16
_LARGEST = 10_000_000


@dataclass(frozen=True)
class Receipt:
    """The public facts of a release, their hash, and perhaps a signature.

    Attributes
    ----------
    content : dict
        The plan with its events, the guarantee, the released numbers, the versions and the hashes of proof
        pages.
    digest : str
        SHA-256 of the content.
    signature : str, optional
        HMAC with SHA-256 of the content, if a key was given.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.release.receipts import verify_receipt
    >>> fit = ClippedMean(clip=1.0, epsilon=0.5, random_state=0).fit(np.zeros((100, 1)))
    >>> receipt = fit.receipt(key="sixteen characters or more")
    >>> checks = verify_receipt(receipt.to_json(), key="sixteen characters or more")
    >>> [check.name for check in checks if not check.passed]
    ['noise']
    >>> checks[-1].found
    'simulated: this was not a private release'
    """

    content: Mapping[str, Any]
    digest: str
    signature: str | None = None

    def to_json(self) -> str:
        """Return the receipt as the text of a file."""
        return json.dumps(
            {**self.content, "sha256": self.digest, "hmac_sha256": self.signature}, indent=2, sort_keys=True
        )


def make_receipt(
    kind: type, plan: Plan, guarantee: PrivacyGuarantee, result: Any = None, key: bytes | str | None = None
) -> Receipt:
    """Return the receipt of a release.

    Parameters
    ----------
    kind : type
        The class that released.
    plan : Plan
    guarantee : PrivacyGuarantee
    result : optional
        The released numbers, as JSON has them.
    key : bytes or str, optional
        Secret key of the signature, at least 16 bytes.
    """
    content = {
        "format": _FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "released_by": f"{kind.__module__}.{kind.__name__}",
        "plan": plan.to_dict(),
        "events": [_as_dict(event) for event in plan.events],
        "guarantee": {"unit": "row", **guarantee.to_dict()},
        "result": result,
        "versions": _versions(),
        "proofs": proof_hashes(kind.__module__),
    }
    # As a reader of the file has it: numbers of numpy and pairs are gone.
    content = json.loads(json.dumps(content, default=_plain))
    text = _canonical(content)
    signature = None if key is None else _sign(text, _checked_key(key))
    return Receipt(content, hashlib.sha256(text).hexdigest(), signature)


def verify_receipt(text: str, key: bytes | str | None = None) -> list[Check]:
    """Check a receipt without the data.

    Parameters
    ----------
    text : str
        Content of the file.
    key : bytes or str, optional
        The key of the signature. Without it, the signature is not checked.

    Returns
    -------
    list of Check
        One for each of content, signature, cost, versions, proofs and noise. Each has ``passed`` and
        ``found``.

    Raises
    ------
    InvalidParameter
        If the text is not a receipt.

    Examples
    --------
    >>> from dpstats.release.receipts import verify_receipt
    >>> verify_receipt("{}")
    Traceback (most recent call last):
    ...
    dpstats.errors.InvalidParameter: receipt must be a file that receipt().to_json() made...
    """
    content, digest, signature = _parse(text)
    whole = _canonical(content)
    same = hmac.compare_digest(hashlib.sha256(whole).hexdigest(), digest)
    return [
        Check("content", same, "unchanged since it was made" if same else "changed: the hash differs"),
        _check_signature(whole, signature, key),
        _check_cost(content),
        _check_versions(content["versions"]),
        _check_proofs(content),
        _check_noise(content["guarantee"]),
    ]


def _parse(text: str) -> tuple[dict[str, Any], str, str | None]:
    """Return the content, the hash and the signature of a receipt, or refuse the text."""
    refusal = refuse(
        "receipt",
        got="other text",
        allowed="a file that receipt().to_json() made",
        remedy="Check the name of the file.",
    )
    try:
        found = json.loads(text, object_pairs_hook=_refuse_repetition) if len(text) <= _LARGEST else None
        _canonical(found)
    except (TypeError, ValueError, RecursionError):
        raise refusal from None
    mappings = ("guarantee", "versions", "proofs")
    if (
        not isinstance(found, dict)
        or found.get("format") != _FORMAT
        or set(found) != {*_CONTENT, "sha256", "hmac_sha256"}
        or not all(isinstance(found[name], dict) for name in mappings)
        or not isinstance(found["sha256"], str)
        or not isinstance(found["hmac_sha256"], str | None)
    ):
        raise refusal
    digest, signature = found.pop("sha256"), found.pop("hmac_sha256")
    if not (digest + (signature or "")).isascii():
        raise refusal
    return found, digest, signature


def _refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping, or refuse a name that occurs twice: a reader of the text might see the first one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError  # `_parse` has the message
    return found


def _check_signature(text: bytes, signature: str | None, key: bytes | str | None) -> Check:
    if key is None:
        found = "no signature" if signature is None else "a signature that was not checked: give its key"
        return Check("signature", True, found)
    if signature is None:
        return Check("signature", False, "no signature, although a key was given")
    right = hmac.compare_digest(_sign(text, _checked_key(key)), signature)
    return Check("signature", right, "made with this key" if right else "not made with this key")


def _check_cost(content: Mapping[str, Any]) -> Check:
    stated = content["guarantee"]
    try:
        events = [_as_event(item) for item in content["events"]]
        claim = PrivacyGuarantee(
            stated["epsilon"], stated["delta"], neighbors=Neighbors[stated["neighbors"]], unit=stated["unit"]
        )
        proved = bool(events) and covers(events, claim)
    except (DPStatsError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return Check("cost", False, "the events or the guarantee cannot be read")
    count = f"{len(events)} event{'s' * (len(events) != 1)}"
    words = f"cost at most {claim}" if proved else f"cost more than {claim}, or not provably less"
    return Check("cost", proved, f"{count}, recomputed: {words}")


def _check_versions(stated: Mapping[str, Any]) -> Check:
    here = _versions()
    other = [f"{name} {stated.get(name)} (here {version})" for name, version in here.items()]
    other = [words for words, name in zip(other, here, strict=True) if stated.get(name) != here[name]]
    return Check("versions", True, "those installed here" if not other else f"others: {', '.join(other)}")


def _check_proofs(content: Mapping[str, Any]) -> Check:
    stated, by = content["proofs"], str(content["released_by"])
    here = proof_hashes(by.rpartition(".")[0])
    if not stated:
        return Check("proofs", True, "none stated: the pages were not installed")
    if not here:
        return Check("proofs", True, "not compared: the pages are not installed here")
    if stated == here:
        return Check("proofs", True, f"the pages installed here: {', '.join(sorted(here))}")
    same_version = content["versions"].get("dpstats") == __version__
    return Check("proofs", not same_version, "the pages installed here are other ones")


def _check_noise(stated: Mapping[str, Any]) -> Check:
    exact = stated.get("simulated") is False
    return Check("noise", exact, "exact" if exact else "simulated: this was not a private release")


def proof_hashes(module: str) -> dict[str, str]:
    """Return the SHA-256 of every proof page about a module, by the page; empty where no pages are installed."""
    file = module.replace(".", "/") + ".py"
    return {
        page.name: hashlib.sha256(text.encode()).hexdigest() for page, text in _pages() if file in named_files(text)
    }


def _pages() -> Iterator[tuple[Path, str]]:
    """Yield the proof pages, of an installation or of the sources, in the order of their names."""
    package = Path(dpstats.__file__).parent
    folders = (package / "proofs", package.parent / "docs" / "proofs")
    folder = next((folder for folder in folders if folder.is_dir()), folders[0])
    for page in sorted(folder.glob("*.md")):
        yield page, page.read_text(encoding="utf-8")


def named_files(text: str) -> set[str]:
    """Return the source files that a page names.

    A name without a folder is in the folder of the name before it.
    """
    found, folder = set(), "dpstats"
    for name in re.findall(r"`([\w/.-]+\.py|[\w.-]+(?:/[\w.-]+)*/)`", text):
        if "/" in name.rstrip("/"):
            folder = name.rstrip("/") if name.endswith("/") else name.rpartition("/")[0]
            found.add(name)
        else:
            found.add(f"{folder}/{name}")
    return found


def _versions() -> dict[str, str]:
    found = {"dpstats": __version__, "python": platform.python_version()}
    return found | {name: _find_version(name) for name in _PACKAGES}


@cache
def _find_version(package: str) -> str:
    return importlib.metadata.version(package)


def _as_dict(event: Event) -> dict[str, Any]:
    numbers = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"event": type(event).__name__, **numbers, "neighbors": event.neighbors.name}


def _as_event(stated: Mapping[str, Any]) -> Event:
    """Return the event of `_as_dict`, or raise what its class raises for other numbers."""
    numbers = {name: value for name, value in stated.items() if name not in ("event", "neighbors")}
    if stated["event"] not in _KINDS:
        raise refuse("event", got="another", allowed=f"one of {', '.join(_KINDS)}", remedy="Check the receipt.")
    event: Event = getattr(kinds, stated["event"])(**numbers, neighbors=Neighbors[stated["neighbors"]])
    return event


def _plain(value: Any) -> Any:
    """Return a number or an array of numpy as JSON has it, and other public values as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _canonical(content: Mapping[str, Any] | None) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")


def _sign(text: bytes, key: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _checked_key(key: bytes | str) -> bytes:
    found = key.encode() if isinstance(key, str) else key
    if not isinstance(found, bytes) or len(found) < _SHORTEST_KEY:
        raise refuse(
            "key",
            got="another value",
            allowed=f"text or bytes of at least {_SHORTEST_KEY} bytes",
            remedy="Make one with secrets.token_hex(32).",
        )
    return found
