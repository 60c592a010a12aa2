"""What a fit says to others: a paragraph on methods, and receipts, which anybody can check without the data.

A receipt states the plan of a fit, its privacy cost, the released numbers, the versions and the hashes of the
proof pages. A check recomputes the cost from the plan's events. It cannot show that the release followed the
plan, or that the declared bounds did not come from the data.

A signature is an HMAC with SHA-256 and a secret key. It proves that a holder of the key wrote the receipt and
that it has not changed since. Every holder can sign, the one who checks too: it proves nothing to a third
person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dpstats import __version__
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan

TO_STATE = (
    "[State the source of every parameter that describes the data, such as bounds, and the total guarantee of all "
    "releases from these data.]"
)
"""Facts that only the author of a paper knows."""


def write_methods(
    name: str,
    plan: ReleasePlan,
    guarantee: PrivacyGuarantee,
    parameters: Sequence[tuple[str, str]],
    estimand: str | None,
    null: str | None,
    notes: Sequence[str] = (),
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
    """
    given = ", ".join(f"{key} = {value}" for key, value in parameters)
    given = given and f" Its parameters were {given}."
    sentences = [
        f"We used {name} of dpstats {__version__}.{given}",
        f"The fit satisfies differential privacy with {replace(guarantee, simulated=False)}.",
    ]
    if guarantee.neighbors is Neighbors.REPLACE_ONE:
        unit = guarantee.unit
        unit = f"{unit}s" if unit in ("row", "unit") else f"units of privacy (one {unit} each)"
        sentences.append(f"The number of {unit}, {plan.n_given:,}, is public.")
    else:
        sentences.append("The number of rows is private.")
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
    return " ".join([*sentences, *find_assumptions(notes), TO_STATE])


def find_assumptions(notes: Sequence[str]) -> list[str]:
    """Return the sentences of notes that state an assumption.

    Examples
    --------
    >>> from dpstats.release.methods_text import find_assumptions
    >>> find_assumptions(["Rows are private. Intervals assume independent rows. Set assume='mean'."])
    ['Intervals assume independent rows.']
    """
    sentences = [sentence for note in notes for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", note)]
    return [sentence for sentence in sentences if re.search(r"\bassum(e|es|ed|ing|ptions?)\b(?!=)", sentence)]


def _step(description: str) -> str:
    """Return the description of a release step on one line, with its parts in brackets."""
    head, *parts = (line.strip() for line in description.splitlines())
    return f"{head.removesuffix(':')} ({'; '.join(parts)})" if parts else head
