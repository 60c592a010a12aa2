"""Real releases, with exact noise: what reaches the samplers is what the plan says, and what is charged.

The audits of test_conformance.py run the batched core with simulated noise. A bug in the exact path alone (half of the
scale where nothing is simulated, a scale that is changed on its way to OpenDP, a bit lost in uniform integers) doubles
epsilon and passes them all. Here every entry of the registry makes the call that a user makes, and the laws, scales and
counts that reach OpenDP and the operating system are recorded and compared with the plan, as arguments.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import opendp.measurements
import pytest
from registry import ENTRIES, Entry
from registry.entry import less_noise

from dpstats.privacy import (
    Choice,
    Coins,
    Comparisons,
    Discovery,
    JointStage,
    KeyCounts,
    OneOf,
    Plan,
    PrivacyBudget,
    Responses,
    Selection,
    Shuffle,
    Smooth,
    Stage,
)
from dpstats.release import noise as sources
from dpstats.release.noise import ExactNoise
from dpstats.release.session import Session

PUBLIC = [entry for entry in ENTRIES if entry.public is not None]
public = pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)

Call = tuple[str, float, int]  # law, scale, how many numbers

_MAKERS = {"make_laplace": "laplace", "make_gaussian": "gaussian", "make_noisy_top_k": "top"}


class Recorder:
    """What reaches OpenDP's samplers and the operating system's entropy; and which plans had sessions."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.uniform: list[tuple[int, int]] = []
        self.inside = False  # another draw, which has integers of its own
        self.plans: list[Plan] = []
        self.asked: dict[str, float] = {}  # scales that a release chooses, by the names of their stages

    def measurement(self, law: str, make: Callable[..., Any], *args: Any, scale: float, **options: Any) -> Any:
        built = make(*args, scale=scale, **options)
        if law == "top":
            # OpenDP's one-sided noise is the exponential; its Gumbel noise comes with zero-concentrated privacy.
            law = "exponential" if "MaxDivergence" in str(args[2]) else f"gumbel {options['k']}"

        def invoke(values: Any) -> Any:
            self.calls.append((law, scale, len(values)))
            return built(values)

        return invoke


@contextmanager
def inside(found: Recorder) -> Iterator[None]:
    found.inside = True
    yield
    found.inside = False


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    # The first fit of a process draws one number of each kind before its charge, which is not of the plan.
    ExactNoise().rehearse(("laplace", "gaussian", "exponential", "gumbel"))
    found = Recorder()
    caches = (sources._opendp_measurement, sources._opendp_selection)
    for cache in caches:
        cache.cache_clear()
    for name, law in _MAKERS.items():
        make = getattr(opendp.measurements, name)

        def made(*args: Any, law: str = law, make: Any = make, **options: Any) -> Any:
            return found.measurement(law, make, *args, **options)

        monkeypatch.setattr(opendp.measurements, name, made)
    integers = ExactNoise.integers

    def uniform(self: ExactNoise, below: int, size: Any) -> Any:
        if not found.inside:
            found.uniform.append((below, int(np.prod(size))))
        return integers(self, below, size)

    monkeypatch.setattr(ExactNoise, "integers", uniform)
    candidate, joint = ExactNoise.candidate, ExactNoise.joint

    def chosen(self: ExactNoise, groups: Any, scale: float, size: int) -> Any:
        if found.inside:
            return candidate(self, groups, scale, size)
        found.calls.append(("choice", scale, size * groups.size))
        with inside(found):
            return candidate(self, groups, scale, size)

    def together(self: ExactNoise, scale: float, size: Any) -> Any:
        found.calls.append(("joint", scale, int(np.prod(size))))
        with inside(found):
            return joint(self, scale, size)

    for name in ("cauchy", "student"):
        heavy = getattr(ExactNoise, name)

        def drawn(self: ExactNoise, scale: float, size: Any, law: str = name, draw: Any = heavy) -> Any:
            found.calls.append((law, scale, int(np.prod(size))))
            return draw(self, scale, size)

        monkeypatch.setattr(ExactNoise, name, drawn)
    monkeypatch.setattr(ExactNoise, "candidate", chosen)
    monkeypatch.setattr(ExactNoise, "joint", together)
    smoothed, one_of = Session.smooth, Session.add_one

    def at_level(self: Session, name: str, integers: Any, level: int) -> Any:
        found.asked[name] = self._stage(name, Smooth).levels[level]
        return smoothed(self, name, integers, level)

    def at_option(self: Session, name: str, integers: Any, option: int) -> Any:
        found.asked[name] = self._stage(name, OneOf).options[option].scale_steps
        return one_of(self, name, integers, option)

    monkeypatch.setattr(Session, "smooth", at_level)
    monkeypatch.setattr(Session, "add_one", at_option)
    opened = Session.open

    def watched(self: Session) -> Session:
        if not self._noise.simulated:
            found.plans.append(self.plan)
        return opened(self)

    monkeypatch.setattr(Session, "open", watched)
    yield found
    for cache in caches:
        cache.cache_clear()


def expected_calls(stage: Any, found: Counter[Call], asked: dict[str, float]) -> list[Call]:
    """Return what a stage that draws once sends to OpenDP; how many candidates there are may be up to the data.

    ``asked`` holds the scales of stages that have several.
    """
    if isinstance(stage, Stage):
        return [(stage.noise, stage.scale_steps, stage.size)]
    if isinstance(stage, JointStage):
        return [(stage.noise, stage.scale_steps(block), block.size) for block in stage.blocks]
    if isinstance(stage, Discovery):
        # How many keys there are is up to the data, and how often noise of their counts is drawn again up to chance.
        scales = {stage.touched.scale_steps(block) for block in stage.blocks}
        if isinstance(stage, KeyCounts) and stage.gap < math.inf:
            scales.add(stage.gap)
        return [call for call in found.elements() if call[0] == stage.noise and call[1] in scales]
    if isinstance(stage, Smooth):
        # Which level is private: the one that the release asked for, and no other.
        return [(stage.noise, asked[stage.name], stage.size)]
    if isinstance(stage, Choice):
        # Of a part each, where there are several.
        sizes = [n for kind, scale, n in found.elements() if (kind, scale) == ("choice", stage.scale_steps)]
        if stage.per_key:
            return [("choice", stage.scale_steps, stage.size)] * len(sizes)
        each = min(sizes, default=stage.size)
        return [("choice", stage.scale_steps, each)] * (stage.size // each)
    if isinstance(stage, Selection):
        law = f"gumbel {stage.size}" if stage.noise == "gumbel" else stage.noise
        given = [n for kind, scale, n in found if (kind, scale) == (law, stage.scale_steps)]
        n = stage.candidates or max(given, default=0)
        return [(law, stage.scale_steps, n)] * stage.times
    return []


def check(recorder: Recorder, plan: Plan, data: Any, output: Any) -> None:
    """Compare what was recorded of one public call with a plan."""
    (opened,) = recorder.plans
    assert opened == plan
    found = Counter(recorder.calls)
    assert all(math.isfinite(scale) and scale > 0 for _, scale, _ in found)
    (stream,) = [s for s in plan.stages if isinstance(s, Comparisons)] or [None]
    if stream is not None:
        (option,) = [s for s in plan.stages if isinstance(s, OneOf)] or [None]
        if option is None:
            check_stream(found, stream, output)
        else:
            chosen = [s for s in plan.stages if isinstance(s, Choice)]
            points = Counter(call for stage in chosen for call in expected_calls(stage, found, {}))
            assert points <= found
            check_threshold(found - points, stream, option, recorder.asked[option.name])
        return
    expected = Counter(call for stage in plan.stages for call in expected_calls(stage, found, recorder.asked))
    stopped = expected - found
    # A test that rejects early leaves later stages out, and says so by an infinite statistic.
    assert found - expected == Counter() and (not stopped or np.isinf(output).any())
    for stage in plan.stages:
        if isinstance(stage, Responses):
            counts = dict(recorder.uniform)
            assert counts.pop(stage.GRAIN) == len(data)
            assert counts == ({} if stage.n_categories == 2 else {stage.n_categories - 1: len(data)})
        elif isinstance(stage, Coins) and not stopped:
            assert recorder.uniform == [(2, math.prod(stage.shape))]
        elif isinstance(stage, Shuffle):
            assert recorder.uniform == [(1 << 62, stage.size)]
    if not any(isinstance(stage, Responses | Coins | Shuffle) for stage in plan.stages):
        assert recorder.uniform == []


def check_stream(found: Counter[Call], stage: Comparisons, answers: Any) -> None:
    """Compare the draws of a stream with its stage: a threshold once or anew after each answer above, values apart."""
    up = np.asarray(answers) > (0 if stage.answer_scale_steps is None else -1e9)
    above = int(up.sum())
    scales = {stage.threshold_scale_steps: 0, stage.question_scale_steps: 0}
    for (law, scale, count), times in found.items():
        assert law == (stage.answer_noise if scale == stage.answer_scale_steps else "laplace")
        scales[scale] = scales.get(scale, 0) + count * times
    # Not anew after the last question, if it was above.
    thresholds = above + (not up[-1]) if stage.redrawn else 1
    assert scales.pop(stage.threshold_scale_steps) == thresholds
    assert scales.pop(stage.question_scale_steps) >= len(answers)
    assert scales == ({} if stage.answer_scale_steps is None or above == 0 else {stage.answer_scale_steps: above})


def check_threshold(found: Counter[Call], stream: Comparisons, option: OneOf, asked: float) -> None:
    """Compare the draws of a threshold's choice, and of one of several sums, with their stages."""
    scales = {stage.scale_steps for stage in option.options}
    (drawn,) = [call for call in found.elements() if call[1] in scales]
    assert drawn == ("laplace", asked, option.size)
    del found[drawn]
    # One noisy threshold, until the first answer above.
    assert found.pop(("laplace", stream.threshold_scale_steps, 1)) == 1
    assert {call[:2] for call in found} == {("laplace", stream.question_scale_steps)}


@pytest.mark.kinds
@public
def test_what_reaches_the_exact_source_is_the_plan(entry: Entry, recorder: Recorder) -> None:
    plan, output = entry.public(entry.dataset, None)
    assert (plan.stages, plan.target) == (entry.plan.stages, entry.plan.target)
    check(recorder, plan, entry.dataset, output)


@pytest.mark.kinds
@public
def test_it_doubles_when_the_plan_does(entry: Entry, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    # A scale that a release computed for itself would stay.
    made = Session.__init__

    def doubled(self: Session, plan: Plan, noise: Any, *args: Any, **options: Any) -> None:
        made(self, plan if noise.simulated else twice(plan), noise, *args, **options)

    monkeypatch.setattr(Session, "__init__", doubled)
    # What is drawn is looked at here, and not whether a plan of other stages keeps its claim: some do not.
    monkeypatch.setattr(type(entry.plan), "guarantee", property(lambda plan: plan.target))
    _, output = entry.public(entry.dataset, None)
    (plan,) = recorder.plans
    assert plan.stages == twice(entry.plan).stages != entry.plan.stages
    check(recorder, plan, entry.dataset, output)


def twice(plan: Plan) -> Plan:
    """Return a plan with twice the noise in every stage (for responses and streams: with other numbers)."""
    return replace(plan, stages=tuple(_twice(stage) for stage in less_noise(plan, 2.0).stages))


def _twice(stage: Any) -> Any:
    if isinstance(stage, Responses):
        return replace(stage, n_categories=stage.n_categories + 2)
    if isinstance(stage, Comparisons):
        return replace(
            stage,
            threshold_scale_steps=2 * stage.threshold_scale_steps,
            question_scale_steps=2 * stage.question_scale_steps,
            answer_scale_steps=stage.answer_scale_steps and 2 * stage.answer_scale_steps,
        )
    return stage


@pytest.mark.kinds
@public
def test_what_is_charged_is_the_plan(entry: Entry) -> None:
    total = entry.plan.guarantee
    budget = PrivacyBudget(1000.0, 0.9, neighbors=total.neighbors)
    plan, _ = entry.public(entry.dataset, budget)
    (kept,) = budget.history()
    assert kept.guarantee == plan.guarantee == total
    assert kept.label == (entry.label or entry.covers.__name__)
    # A second release is a second charge.
    entry.public(entry.dataset, budget)
    assert len(budget.history()) == 2


# Bugs that only exact noise has, planted: each must fail the comparison above.


def half_where_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Session._noisy

    def noisy(self: Session, law: str, scale: float, *rest: Any) -> Any:
        return drawn(self, law, scale / 2 if self.size is None else scale, *rest)

    monkeypatch.setattr(Session, "_noisy", noisy)


def one_scale_for_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Session._noisy

    def noisy(self: Session, law: str, scale: float, *rest: Any) -> Any:
        joint = [stage for stage in self.plan.stages if isinstance(stage, JointStage)]
        least = min((stage.scale_steps(block) for stage in joint for block in stage.blocks), default=scale)
        return drawn(self, law, least, *rest)

    monkeypatch.setattr(Session, "_noisy", noisy)


def half_on_the_way_to_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sources._opendp_selection
    monkeypatch.setattr(sources, "_opendp_selection", lambda noise, scale, k: made(noise, scale / 2, k))


def one_draw_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    integers = ExactNoise.integers

    def shared(self: ExactNoise, below: int, size: Any) -> Any:
        count = int(np.prod(size))
        return np.repeat(integers(self, below, (count + 1) // 2), 2)[:count].reshape(size)

    monkeypatch.setattr(ExactNoise, "integers", shared)


def the_level_below(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Session._noisy

    def noisy(self: Session, law: str, scale: float, *rest: Any) -> Any:
        for stage in self.plan.stages:
            if isinstance(stage, Smooth) and scale in stage.levels:
                scale = stage.levels[max(stage.levels.index(scale) - 1, 0)]
        return drawn(self, law, scale, *rest)

    monkeypatch.setattr(Session, "_noisy", noisy)


def the_scale_of_another_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Session._noisy

    def noisy(self: Session, law: str, scale: float, *rest: Any) -> Any:
        scales = [o.scale_steps for s in self.plan.stages if isinstance(s, OneOf) for o in s.options]
        return drawn(self, law, next((other for other in scales if other != scale), scale), *rest)

    monkeypatch.setattr(Session, "_noisy", noisy)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("median by smooth sensitivity", the_level_below),
        ("SQL count, joined with a private table, pure", the_level_below),
        ("SQL count of units, cut at a threshold", the_scale_of_another_threshold),
        ("clipped mean, linf, Gaussian", half_where_nothing_is_simulated),
        ("clipped mean and its spread, linf, Gaussian", half_where_nothing_is_simulated),
        ("clipped mean and its spread, linf, Gaussian", one_scale_for_all_blocks),
        ("variance, Laplace", one_scale_for_all_blocks),
        ("adaptive mean, Laplace", half_where_nothing_is_simulated),
        ("sparse mean, Gumbel selection", half_where_nothing_is_simulated),
        ("Laplace mechanism, 1 number(s)", half_where_nothing_is_simulated),
        ("exponential mechanism", half_on_the_way_to_opendp),
        ("sparse mean, pure", half_on_the_way_to_opendp),
        ("randomized response, 2 categories", one_draw_too_few),
        ("filtering", one_draw_too_few),
    ],
)
def test_a_bug_of_the_exact_path_is_seen(
    name: str, bug: Callable[[pytest.MonkeyPatch], None], recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = [entry for entry in ENTRIES if entry.name == name]
    bug(monkeypatch)
    plan, output = entry.public(entry.dataset, None)
    with pytest.raises(AssertionError):
        check(recorder, plan, entry.dataset, output)
