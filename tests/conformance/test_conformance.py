"""What every release must pass; one registry entry away for a new one."""

from __future__ import annotations

import importlib
import inspect
import math
import pickle
import pkgutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from checklist import list_unsaid
from registry import ENTRIES, Entry, PlantedBug, Understated
from registry.additive import low_bits
from registry.entry import Draw, measured, remembered, traits_of
from registry.reading import fit_data, has_one_column, settings
from registry.search import ATTAINED, Search, additive, stages_of
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import (
    check_do_not_raise_errors_in_init_or_set_params,
    check_estimator,
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimator_tags_renamed,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
    check_valid_tag_types,
)
from test_joint_laws import PLAIN

import dpstats
from dpstats.auditing import AuditResult, audit, audit_outputs, check_sensitivity, scores
from dpstats.auditing.movement import measure_change, noisy, stated_sensitivity, vectors
from dpstats.errors import DPStatsError
from dpstats.mechanisms import LaplaceMechanism
from dpstats.privacy import (
    Choice,
    Coins,
    Comparisons,
    Discovery,
    JointStage,
    KeyCounts,
    OneOf,
    Responses,
    Selection,
    Shuffle,
    Smooth,
    Stage,
    compose,
    zcdp_epsilon,
)
from dpstats.privacy.events import BoundedRange
from dpstats.quantiles.grid import rank_errors
from dpstats.release.additive import has_private_size
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.mechanism import Mechanism
from dpstats.release.noise import ExactNoise, SimulatedNoise
from tests.conftest import LIST

ROOT = Path(__file__).resolve().parents[2]
TRIALS = 20_000
BUGS = [(entry, bug) for entry in ENTRIES for bug in entry.bugs]
UNDERSTATED = [(entry, bug) for entry in ENTRIES for bug in entry.understated]

# All audits of right releases together raise a false alarm with probability at most 0.002: half of it is of the first
# looks, at a part of the runs.
CONFIDENCE = 1 - 0.001 / len(ENTRIES)

# The two values of an outcome are declared, as 0 and 1 if nothing else is said, and not read from the data.
DECLARED_CLASSES = {
    f"check_{name}": "classes are declared, not read from the data"
    for name in (
        "estimators_dtypes",
        "classifier_data_not_an_array",
        "classifiers_classes",
        "classifiers_regression_target",
        "classifier_not_supporting_multiclass",
        "fit2d_1feature",
    )
}


DROPS_OUTCOMES = {"check_supervised_y_no_nan": "a missing outcome drops its row if missing='drop'"}
NO_ROWS = {"check_estimators_empty_data_messages": "no rows are data, if their number is private"}
ONE_DIMENSION = {"check_fit1d": "one column may have one dimension, for every estimator"}


def excused(estimator: PrivateEstimator) -> dict[str, str]:
    """Return the checks that an estimator fails, by name, and why: those of all of its kind, and its own."""
    stated = traits_of(estimator).excused
    found = ONE_DIMENSION | {name: why for name, why in stated.items() if name.startswith("check_")}
    if has_private_size(estimator):
        found |= NO_ROWS
    tags = get_tags(estimator)
    if tags.target_tags.required and getattr(estimator, "missing", "error") == "drop":
        found |= DROPS_OUTCOMES
        if tags.classifier_tags is not None:
            found["check_classifiers_one_label"] = "noise decides what is predicted for one of ten rows"
            found["check_estimators_pickle"] = "no class is predicted for a row with a missing entry"
    return found | (DECLARED_CLASSES if tags.classifier_tags is not None else {})


entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)

# Releases with additive noise, or that select by scores of rows. The others have no sensitivity in this sense: the
# exact odds of randomized response, and the lattice of given utilities, are brute-forced in tests/mechanisms/.
STAGED = [entry for entry in ENTRIES if stages_of(entry)]
staged = pytest.mark.parametrize("entry", STAGED, ids=lambda entry: entry.name)


_CLIMB = 150  # steps of the search for a worse pair, from each of the worst of an entry


@staged
def test_sensitivity_is_never_exceeded_and_attained(entry: Entry) -> None:
    """A declared movement that is half of the true one is exceeded; one that is twice as large is not attained."""
    worst = Search(entry, steps=_CLIMB).run(ATTAINED)
    assert max(worst.values()) <= 1, worst
    assert entry.unattained.keys() <= worst.keys() and bool(entry.unattained) == bool(entry.unattained_reason)
    for name, ratio in worst.items():
        if name in entry.unattained:
            assert entry.unattained[name] <= ratio < ATTAINED, f"{name}: {ratio}, so {entry.unattained_reason}?"
        else:
            assert ratio >= ATTAINED, f"{name} attains {ratio} of what it declares: search better, or explain"


REPLAYED = [entry for entry in ENTRIES if entry.estimator is not None and not entry.not_replayed]


@pytest.mark.kinds
@pytest.mark.parametrize("entry", REPLAYED, ids=lambda entry: entry.name)
def test_a_neighbor_that_is_replayed_moves_what_the_plan_declares(entry: Entry) -> None:
    outcome = get_tags(entry.estimator).target_tags.required
    pair = [(x[:, :-1], x[:, -1]) if outcome else x for x in (entry.dataset, entry.neighbor)]
    check = check_sensitivity(entry.estimator, *pair, rows_apart=entry.rows_apart)
    # The fit itself, with all its stages: course and report follow from what was released.
    assert check.ok and check.ratio <= 1 and not check.course and "follows" in check.output


@pytest.mark.parametrize(("entry", "bug"), UNDERSTATED, ids=[f"{entry.name}: {bug.name}" for entry, bug in UNDERSTATED])
def test_brute_force_sees_what_is_understated(entry: Entry, bug: Understated) -> None:
    stages, integers = noisy(bug.plan) or measured(bug.plan), remembered(bug.integers)
    # One pair tells; the others need not be looked at.
    assert any(
        measure_change(stage, *steps) > stated_sensitivity(stage)
        for first, second in bug.pairs()
        for stage, *steps in zip(stages, integers(first), integers(second), strict=True)
    )
    # The bug is in what is stated: the claim is that of the release.
    assert bug.plan.guarantee.epsilon <= entry.claim.epsilon * (1 + 1e-9)


@entries
def test_guarantee_is_what_the_accountant_says(entry: Entry) -> None:
    plan, claim = entry.plan, entry.claim
    composed = compose(plan.events, claim.delta)
    # Never above the claim, and below it only by the millionth of delta that is set aside for discreteness; or by
    # what a mechanism leaves that is calibrated by zero-concentrated totals.
    assert composed.epsilon <= claim.epsilon
    assert composed.delta <= claim.delta
    tightest = composed.epsilon
    if (
        tightest < claim.epsilon * (1 - 1e-6)
        and any(isinstance(stage, Selection) for stage in plan.stages)
        and claim.delta > 0
    ):
        rho = math.fsum(event.zcdp_cost() or math.inf for event in plan.events)
        tightest = max(tightest, zcdp_epsilon(rho, claim.delta) if math.isfinite(rho) else 0.0)
    assert tightest == pytest.approx(claim.epsilon, rel=1e-6)


@entries
def test_events_are_those_of_the_noise(entry: Entry) -> None:
    # What an accountant sees, counted and computed again from the sensitivity and the noise alone.
    for stage in entry.plan.stages:
        expected = costs_of(stage)
        assert len(stage.events) == len(expected)
        for event, (kind, cost) in zip(stage.events, expected, strict=True):
            found = event.pure_cost() if kind in ("pure", "range") else event.zcdp_cost()
            if kind == "approximate":
                assert (event.epsilon, event.delta) == (cost[0], pytest.approx(cost[1], rel=1e-9))
                continue
            # By an ulp or so, and never below.
            assert cost * (1 - 1e-14) <= found <= cost * (1 + 1e-12)
            assert event.neighbors is stage.neighbors
            assert isinstance(event, BoundedRange) == (stage.noise == "gumbel" or kind == "range")
    if "events" not in traits_of(entry).excused and not entry.plan.disjoint:
        assert entry.plan.events == tuple(event for stage in entry.plan.stages for event in stage.events)


def costs_of(stage: Any) -> list[tuple[str, Any]]:
    """Return what every event of a stage costs: its pure epsilon, its rho, or both epsilon and delta."""
    if isinstance(stage, Stage | JointStage):
        # Of a joint stage one event, of all blocks together: each in its unit has noise of one scale.
        joint = isinstance(stage, JointStage)
        ratio = stage.sensitivity / stage.scale if joint else stage.sensitivity_steps / stage.scale_steps
        for vector in vectors(stage) if joint else []:
            assert vector.scale == pytest.approx(stage.scale * vector.unit, rel=1e-15)
        one = ("zcdp", ratio**2 / 2) if stage.noise == "gaussian" else ("pure", ratio)
        return [one] * (1 if joint else stage.times)
    if isinstance(stage, KeyCounts):
        # A key that is left costs the rate above 0, and one that is entered the rate below; other numbers add theirs.
        epsilon = stage.touched.sensitivity / stage.touched.scale + stage.row_steps / stage.gap
        return [("approximate", (pytest.approx(epsilon, rel=1e-12), stage.threshold_delta))]
    if isinstance(stage, Discovery):
        # What the threshold costs is brute-forced in tests/release/test_discovery.py.
        return [*costs_of(stage.touched), ("approximate", (0.0, stage.threshold_delta))]
    if isinstance(stage, Selection):
        width = 1 if stage.monotone else 2
        return [("pure", width * stage.sensitivity_steps / stage.scale_steps)] * stage.size
    if isinstance(stage, Choice):
        return [("range", stage.range_steps / stage.scale_steps)]
    if isinstance(stage, Smooth):
        ratio = max(high / low for low, high in pairwise(stage.levels))
        if stage.noise != "laplace":
            m = {"cauchy": 1, "student": 2}[stage.noise]
            both = m * math.hypot(stage.sensitivity_share, math.log(ratio))
            return [("pure", both + (2 * m * stage.size - m - stage.size) * math.log(ratio))]
        delta = 2 * math.exp(-stage.far / (ratio - 1))
        return [("approximate", (stage.sensitivity_share + stage.far, delta))]
    if isinstance(stage, OneOf):
        (ratio,) = {option.sensitivity_steps / option.scale_steps for option in stage.options}
        return [("pure", ratio)]
    if isinstance(stage, Responses):
        keep = stage.keep_grains / 2**62
        return [("pure", math.log(keep * (stage.n_categories - 1) / (1 - keep)))]
    if isinstance(stage, Comparisons):
        steps = stage.sensitivity_steps
        # A threshold that is kept pays for all the answers above that it gives.
        kept = 1 if stage.redrawn else stage.max_above
        each = steps / stage.threshold_scale_steps + 2 * kept * steps / stage.question_scale_steps
        comparisons = [("pure", each)] * (stage.max_above // kept)
        if stage.answer_scale_steps is None:
            return comparisons
        ratio = steps / stage.answer_scale_steps
        answer = ("zcdp", ratio**2 / 2) if stage.answer_noise == "gaussian" else ("pure", ratio)
        return comparisons + [answer] * stage.max_above
    assert isinstance(stage, Coins | Shuffle)
    return []


def looks(draw: Draw, pair: tuple[Any, Any], claim: Any, trials: int) -> Iterator[AuditResult]:
    """Yield audits of an eighth of the runs, a quarter and a half, each with those of the one before; then of all.

    The first two fit no classifiers, which take longer than the rest: most show without. Each is a valid audit.
    """
    stated = {"epsilon": claim.epsilon, "delta": claim.delta}
    outputs: tuple[list[Any], list[Any]] = [], []
    done = 0
    for part in (8, 4, 2):
        for number, (found, data) in enumerate(zip(outputs, pair, strict=True)):
            found.append(draw(data, np.random.default_rng([7, part, number]), trials // part - done))
        done = trials // part
        with pytest.MonkeyPatch.context() as patch:
            if part > 2:
                patch.setattr(scores, "_classifiers", lambda *pair: iter(()))
            result = audit_outputs(*map(np.concatenate, outputs), **stated, confidence=1 - (1 - CONFIDENCE) / 3)
        yield result
    yield audit(draw, *pair, **stated, n_trials=trials, confidence=CONFIDENCE, batched=True, random_state=7)


@pytest.mark.kinds
@entries
def test_audit_does_not_accuse_and_has_power(entry: Entry) -> None:
    # An attack that proves next to nothing would not show a bug either.
    for result in looks(entry.draw, (entry.dataset, entry.neighbor), entry.claim, min(TRIALS, entry.most_trials)):
        assert not result.violated
        if powerful := result.epsilon_lower >= entry.power * entry.claim.epsilon:
            break
    assert powerful


@pytest.mark.kinds
@pytest.mark.parametrize(("entry", "bug"), BUGS, ids=[f"{entry.name}: {bug.name}" for entry, bug in BUGS])
def test_audit_catches_the_planted_bug(entry: Entry, bug: PlantedBug) -> None:
    # Many show with a few releases; the stated number is drawn where they do not.
    assert any(result.violated for result in looks(bug.draw, (bug.dataset, bug.neighbor), bug, bug.trials))


def laplace_steps(scale: float) -> np.ndarray:
    """Return the probabilities of |noise| = 0, 1, ... for coarse discrete Laplace noise."""
    decay = math.exp(-1 / scale)
    steps = np.arange(math.ceil(40 * scale) + 2)
    return (1 - decay) / (1 + decay) * np.where(steps == 0, 1, 2) * decay**steps


def law_pvalue(steps: np.ndarray, noise: str, scale: float) -> float:
    """Return a p-value that noise has this law and scale: the smaller of a test of scale and one of shape."""
    if noise == "joint":
        # Of one number; the other is in tests/quantiles/test_rank_errors.py.
        law = rank_errors(JOINT, scale)
        expected, at = steps.size * law.pmf, law.first + np.arange(law.pmf.size)
        inside = expected >= 10
        counts = np.array([np.count_nonzero(steps == k) for k in at[inside]])
        both = [np.append(values, steps.size - values.sum()) for values in (counts, expected[inside])]
        return float(stats.chisquare(*both).pvalue)
    if noise == "laplace" and scale < 10:
        # On few steps: chi-square over |noise|, the tail pooled where fewer than ten are expected.
        expected = steps.size * laplace_steps(scale)
        cut = max(2, int(np.argmax(expected < 10)))
        counts = np.bincount(np.abs(steps).astype(int), minlength=expected.size)
        pooled = [np.append(values[:cut], values[cut:].sum()) for values in (counts, expected)]
        return float(stats.chisquare(pooled[0], pooled[1] * pooled[0].sum() / pooled[1].sum()).pvalue)
    if noise == "laplace":
        tail = stats.gamma(steps.size).sf(np.abs(steps).sum() / scale)
    else:
        tail = stats.chi2(steps.size).sf(((steps / scale) ** 2).sum())
    law, variance = (stats.laplace, 2) if noise == "laplace" else (stats.norm, 1)
    # Steps are spread over their width: on few steps the jumps of the law would be as large as its errors.
    spread = steps + np.random.default_rng(0).uniform(-0.5, 0.5, steps.size)
    shape = stats.kstest(spread / math.sqrt(scale**2 + 1 / (12 * variance)), law.cdf)
    return min(2 * min(tail, 1 - tail), float(shape.pvalue))


def law_size(noise: str, scale: float) -> int:
    """Return how many numbers tell a scale from one a tenth off, at 1e-6: all but once in 10^7 tries.

    n numbers show the scale of Laplace noise to 1/sqrt(n) of it, and of Gaussian noise to 1/sqrt(2 n). A scale that is
    1.1 times the right one is the harder to tell: the sum of |noise|/scale is 0.091 n short, in deviations of 0.91
    sqrt(n), and has to be 4.9 sqrt(n) short; the sum of squares 0.174 n, 0.83 sqrt(2 n) and 4.9 sqrt(2 n). On few steps
    a chi-square over several cells is blunter.
    """
    if noise == "joint":
        return 20_000
    return 6_000 if noise == "gaussian" else 12_000 if scale >= 10 else 20_000


JOINT = 2
"""How many numbers joint noise is drawn for."""


# One scale of each octave that the registry has: a source is asked for noise of a scale, and knows of no stage.
LAWS = {
    f"{stage.noise}, {vector.scale:.3g}": (stage.noise, vector.scale)
    for stage, vector in {
        (stage.noise, math.frexp(vector.scale)[1]): (stage, vector)
        for entry in STAGED
        for stage in additive(entry)
        for vector in vectors(stage)
    }.values()
}


@pytest.mark.parametrize(("noise", "scale"), LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("source", ["exact", "simulated"])
def test_noise_has_the_stated_law(source: str, noise: str, scale: float) -> None:
    # False alarm 2e-6 per law and source; a scale off by a tenth is rejected at the same level.
    drawn = ExactNoise() if source == "exact" else SimulatedNoise(np.random.default_rng(11))
    size = law_size(noise, scale)
    if noise == "joint":
        # With exact noise a draw takes milliseconds: of two numbers, which go together, either has the law.
        size = (size if source == "simulated" else 1500, JOINT)
    steps = np.atleast_2d(getattr(drawn, noise)(scale, size).T)[0].astype(float)
    assert law_pvalue(steps, noise, scale) > 1e-6
    few = noise == "joint" and source == "exact"
    for factor in (0.6, 1.6) if few else (0.9, 1.1):
        assert law_pvalue(steps, noise, factor * scale) < 1e-6


def checked_estimator(entry: Entry) -> Any:
    """Return what scikit-learn's checks are given of an entry: its estimator, with numbers for any width."""
    estimator = clone(entry.estimator)
    if np.ndim(getattr(estimator, "clip", 0.0)) or np.ndim(getattr(estimator, "center", 0.0)):
        # The checks use tables of many widths, which one bound per column cannot fit.
        estimator.set_params(clip=1.0, center=0.0)
    if np.ndim(getattr(estimator, "bounds", None)) == 2:
        estimator.set_params(bounds=(-1.0, 1.0))
    return estimator.set_params(**traits_of(entry).checked_with)


# Each estimator once: several entries attack one from different sides.
CHECKED = {
    f"{type(made).__name__} {made.get_params()}": (entry.name, made)
    for entry in reversed(ENTRIES)
    if entry.estimator is not None
    for made in [checked_estimator(entry)]
}
# Single columns of numbers, without labels or events beside them.
ONE_COLUMN = {
    type(entry.estimator): entry.estimator
    for entry in settings(ENTRIES)
    if has_one_column(entry.estimator)
    and [np.asarray(part).dtype.kind for part in fit_data(entry.estimator, np.ones((4, 1)))] == ["f"]
}
# scikit-learn's checks are for tables of numbers. Of labels, and of a single column, there are those of parameters.
OF_NUMBERS = [(name, made) for name, made in CHECKED.values() if get_tags(made).input_tags.two_d_array]
OTHERS = [(name, made) for name, made in CHECKED.values() if not get_tags(made).input_tags.two_d_array]
OF_PARAMETERS = (
    check_estimator_cloneable,
    check_estimator_repr,
    check_estimator_tags_renamed,
    check_valid_tag_types,
    check_no_attributes_set_in_init,
    check_do_not_raise_errors_in_init_or_set_params,
    check_parameters_default_constructible,
    check_get_params_invariance,
    check_set_params,
)


@entries
def test_what_has_no_estimator_is_none(entry: Entry) -> None:
    # Of what releases besides the fit, the fit has an entry of its own.
    needed = entry.method == "fit" and issubclass(entry.covers, PrivateEstimator)
    excused = entry.no_estimator or "estimator" in traits_of(entry).excused
    assert entry.estimator is not None or not needed or excused


@pytest.mark.parametrize("estimator", [pytest.param(made, id=name) for name, made in OTHERS])
@pytest.mark.parametrize("check", OF_PARAMETERS, ids=lambda check: check.__name__)
def test_conventions_of_parameters(estimator: PrivateEstimator, check: Any) -> None:
    check(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", [pytest.param(made, id=name) for name, made in OF_NUMBERS])
def test_scikit_learn_conventions(estimator: PrivateEstimator) -> None:
    check_estimator(estimator, on_skip=None, expected_failed_checks=excused(estimator))


@pytest.mark.parametrize("estimator", ONE_COLUMN.values(), ids=lambda made: type(made).__name__)
def test_what_takes_one_column_is_an_estimator(estimator: PrivateEstimator) -> None:
    made = clone(estimator).set_params(random_state=3)
    assert made.get_params() == {**estimator.get_params(), "random_state": 3}
    x = np.random.default_rng(4).normal(size=40)
    kept = x.copy()
    assert made.fit(x) is made and np.array_equal(x, kept)
    frame = pd.DataFrame({"a": x})
    for same in (x[:, None], x.tolist(), x[:, None].tolist(), pd.Series(x, name="a"), frame, pl.DataFrame(frame)):
        again = clone(made).fit(same)
        assert str(again.summary()).replace(" a,", " x,").replace("\na ", "\nx ") == str(made.summary())
        assert again.n_features_in_ == 1
    assert list(clone(made).fit(frame).feature_names_in_) == ["a"]
    assert list(clone(made).fit(frame["a"]).feature_names_in_) == ["a"]
    with pytest.raises(DPStatsError, match="one column"):
        clone(made).fit(np.column_stack([x, x]))
    assert str(pickle.loads(pickle.dumps(made)).summary()) == str(made.summary())
    with pytest.raises(NotFittedError):
        clone(made).summary()


@entries
def test_proof_page_says_what_it_must(entry: Entry) -> None:
    page = (ROOT / "docs" / "proofs" / entry.proof).read_text(encoding="utf-8")
    assert list_unsaid(page) == [] and entry.covers.__name__.lower() in page.lower(), entry.proof


def test_every_release_is_registered() -> None:
    covered = {entry.covers for entry in ENTRIES}
    for releasing in releasing_classes():
        assert releasing in covered, f"{releasing.__name__} releases private data and has no registry entry"


def releasing_classes() -> set[type]:
    """Return the public classes of dpstats that release: estimators and mechanisms, whatever their methods' names."""
    found = set()
    for module in modules():
        for name, item in inspect.getmembers(module, inspect.isclass):
            own = item.__module__ == module.__name__ and not item.__module__.startswith("dpstats.release")
            if own and not name.startswith("_") and not inspect.isabstract(item):
                found |= {item} if issubclass(item, PrivateEstimator | Mechanism) else set()
    # A base that nobody can import from its package is used by the others alone.
    public = {name for module in modules() for name in getattr(module, "__all__", ())}
    bases = {base for item in found for base in item.__mro__[1:]}
    return {item for item in found if item.__name__ in public or item not in bases}


def modules() -> list[Any]:
    names = (module.name for module in pkgutil.walk_packages(dpstats.__path__, "dpstats."))
    return [importlib.import_module(name) for name in names if name != "dpstats.__main__"]


def test_every_entry_has_an_honest_stage() -> None:
    # The bound on total variation behind the Gaussian slack needs scales of ten steps or more; discrete
    # Laplace noise is exact at any scale.
    for entry in ENTRIES:
        for stage in additive(entry):
            for vector in vectors(stage):
                assert stage.noise != "gaussian" or vector.scale >= 10
                assert math.isfinite(vector.scale)


@pytest.mark.parametrize("name", sorted({entry.covers.__name__ for entry in ENTRIES}))
def test_every_release_has_a_planted_bug(name: str) -> None:
    assert any(bug for entry, bug in BUGS if entry.covers.__name__ == name)


@pytest.mark.parametrize("source", ["exact", "simulated"])
def test_least_significant_bits_show_nothing_of_ours(source: str) -> None:
    # The attack that the planted bug "least significant bits" makes on floating-point noise, on ours.
    mechanism = LaplaceMechanism(1.0, 1.0, random_state=None if source == "exact" else 3)
    spacing = mechanism.plan.additive[0].spacing
    for rows in (np.zeros(3), np.eye(1, 3)[0]):
        released = np.array([mechanism.release(rows.sum()) for _ in range(4000)])
        # Both neighbors release multiples of one spacing, so no output is out of reach of either.
        assert np.array_equal(released / spacing, np.rint(released / spacing))
        assert low_bits(released).sum() == 0


KEPT = {
    "test_conformance.py::test_sensitivity_is_never_exceeded_and_attained": [(entry, entry.name) for entry in STAGED],
    "test_conformance.py::test_audit_does_not_accuse_and_has_power": [(entry, entry.name) for entry in ENTRIES],
    "test_conformance.py::test_audit_catches_the_planted_bug": [
        (entry, f"{entry.name}: {bug.name}") for entry, bug in BUGS
    ],
    "test_joint_laws.py::test_the_audited_batch_is_of_independent_numbers": [(entry, entry.name) for entry in PLAIN],
}
"""Brute force, audits, planted bugs and laws: `make test` has one of every class, for every kind of its stages."""


@pytest.mark.parametrize("test", KEPT)
def test_the_fast_suite_has_every_class_and_kind_of_stage(test: str) -> None:
    slow = set(LIST.read_text(encoding="utf-8").splitlines())
    everything, fast = set(), set()
    for entry, name in KEPT[test]:
        kinds = {(entry.covers.__name__, type(stage).__name__) for stage in entry.plan.stages}
        everything |= kinds
        if f"tests/conformance/{test}[{name}]" not in slow:
            fast |= kinds
    assert everything - fast == set()
