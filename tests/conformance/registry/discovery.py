"""Means of groups that nobody declared: keys that appear and disappear with a row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpstats.auditing.movement import Steps
from dpstats.data.columns import read_labels
from dpstats.data.rows import Table
from dpstats.groups import GroupMeans
from dpstats.means.ratio import TOTALS
from dpstats.privacy import Discovery, KeyCounts, Neighbors, Plan
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated
from registry.groups import NOBODY, Pair, pairs_of_rows, rows, staying
from registry.private_size import labeled_rows

OPTIONS = {"groups": "discover", "bounds": (-1.0, 1.0), "epsilon": 3.0, "delta": 1e-2}
APART = {**OPTIONS, "delta": 1e-4}
"""Of one column: counts and shares then have Laplace noise, with a part of epsilon each."""
KEYS = [0, 1, 2, int(NOBODY)]


def labeled(data: Dataset) -> Table:
    """Return rows whose last column is the label as a table."""
    return Table(data[:, :-1], labels=read_labels(data[:, -1]))


def stage_of(plan: Plan) -> Discovery:
    (stage,) = plan.stages
    assert isinstance(stage, Discovery)
    return stage


def totals_of(estimator: Any, plan: Plan, data: Dataset) -> dict[Any, dict[str, np.ndarray]]:
    """Return the integers of each key that a dataset has."""
    labels, sums = estimator._read(labeled(data), plan)[TOTALS]
    return {label: {name: sums[name][k] for name in sums} for k, label in enumerate(labels)}


def of_all_keys(estimator: Any, plan: Plan, data: Dataset) -> dict[str, np.ndarray]:
    """Return the integers of every key of the registry's datasets; a key without rows has zeros."""
    own, stage = totals_of(estimator, plan, data), stage_of(plan)
    return {
        block.name: np.concatenate(
            [own[key][block.name] if key in own else np.zeros(stage.width(block), dtype=np.int64) for key in KEYS]
        )
        for block in stage.blocks
    }


def widened(stage: Discovery) -> Any:
    """Return the joint stage of all keys of the registry's datasets."""
    factor = len(KEYS) // stage.keys
    blocks = tuple(replace(block, size=factor * block.size) for block in stage.blocks)
    return replace(stage.touched, blocks=blocks)


def log_likelihood(stage: Discovery, key: dict[str, np.ndarray] | None, released: Any, place: int) -> np.ndarray:
    """Return the logarithm of the density of what was released of a key, up to a constant of the key's noise."""
    counts = released[stage.counts.name][:, place, 0]
    found = np.isfinite(counts)
    if key is None:
        return np.where(found, -np.inf, 0.0)
    count, most = float(key[stage.counts.name][0]), stage.threshold_steps
    if isinstance(stage, KeyCounts):
        return laplace_log_likelihood(stage, key, released, place)
    scale = stage.touched.scale_steps(stage.counts)
    total, constant = np.zeros(len(counts)), log_ndtr(most / scale)
    for block in stage.blocks:
        noise = stage.touched.scale_steps(block)
        off = (released[block.name][:, place] / np.asarray(block.spacing) - key[block.name]) / noise
        total -= (off**2 / 2).sum(axis=1) + block.size / 2 * math.log(math.sqrt(2 * math.pi) * noise)
    total = np.where(counts / stage.counts.spacing - count >= most, -np.inf, total - constant)  # type: ignore[operator]
    hidden = math.log(max(float(ndtr(min(most - count, most) / scale)), 1e-300)) - constant
    return np.where(found, total, hidden)


def laplace_log_likelihood(stage: KeyCounts, key: dict[str, np.ndarray], released: Any, place: int) -> np.ndarray:
    """Return the same under Laplace noise, where the noise of a count has a tail on either side."""
    above, below = map(float, stage.rates)
    counts, mass = released[stage.counts.name][:, place, 0], stage.count_noise.mass
    count, most = float(key[stage.counts.name][0]), stage.threshold_steps
    noise = counts / stage.counts.spacing - count  # type: ignore[operator]
    total = np.where(noise >= most, -np.inf, np.where(noise > 0, -above * noise, below * noise))
    for block in stage.blocks[1:]:
        off = released[block.name][:, place] / np.asarray(block.spacing) - key[block.name]
        total = total - np.abs(off).sum(axis=1) / stage.touched.scale_steps(block)
    ends = stage.threshold - count / stage.row_steps, stage.threshold
    hidden = math.log(float(mass(-np.inf, ends[0])) / float(mass(-np.inf, ends[1])))
    return np.where(np.isfinite(counts), total, hidden)


def likelihood(estimator: Any, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker best sees it, who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(len(pair[0]), pair[0].shape[1] - 1)
    stage = stage_of(plan)
    known = [totals_of(estimator, plan, data) for data in pair]

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(labeled(data), plan), plan, session)
        released = session.released[TOTALS]
        total = np.zeros(size)
        for place, label in enumerate(released["labels"]):
            a, b = (log_likelihood(stage, own.get(label), released, place) for own in known)
            total += np.clip(np.where(np.isinf(a) & np.isinf(b), 0.0, a - b), -1e3, 1e3)
        for one, other, sign in ((known[0], known[1], 1.0), (known[1], known[0], -1.0)):
            # A key of one dataset alone, which is not in the data: it is not found.
            for label in one.keys() - other.keys() - set(released["labels"]):
                hidden = {b.name: np.full((size, 1, stage.width(b)), np.nan) for b in stage.blocks}
                total += sign * log_likelihood(stage, one[label], hidden, 0)
        return total[:, None]

    return draw


class HalfNoise(GroupMeans):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        return replace(plan, stages=(replace(stage, touched=replace(stage.touched, scale=stage.touched.scale / 2)),))


class LowThreshold(GroupMeans):
    """Planted bug: a threshold that is nearer to one row."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        lowered = stage.row_steps + (stage.threshold_steps - stage.row_steps) // 4
        return replace(plan, stages=(replace(stage, threshold_steps=lowered),))


class SharesUnpaid(GroupMeans):
    """Planted bug: all of epsilon is for the counts, and shares have the noise that half of it pays for."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        first, *others = stage.blocks
        touched = replace(
            stage.touched, blocks=(first, *(replace(each, unit_steps=each.unit_steps / 2) for each in others))
        )
        return replace(plan, stages=(replace(stage, touched=touched),))


class OnlyTheColumns(GroupMeans):
    """Planted bug: a change of the key is not counted."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        touched = replace(stage.touched, sensitivity=stage.touched.sensitivity / 1.2, scale=stage.touched.scale / 1.2)
        return replace(plan, stages=(replace(stage, touched=touched),))


def known_counts(made: Any) -> list[float]:
    """Return the counts of the registry's keys, -1 for one that was not found."""
    found = dict(zip(made.groups_, made.counts_.tolist(), strict=True))
    return [found.get(key, -1.0) for key in KEYS]


def public(options: dict[str, Any]) -> Any:
    def fit(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = GroupMeans(**options, budget=budget).fit(data[:, :-1], data[:, -1])
        return made.plan_, np.array(known_counts(made))

    return fit


def alone(added: bool, d: int) -> Pair:
    """Return neighbors of which one alone has a key, with one row."""
    nothing, others = [0.0] * d, [[*[0.0] * d, 1.0]] * 4
    return rows([*nothing, 0.0], *others), rows(*[[*nothing, 1.0]] * (not added), *others)


def crowded(added: bool, d: int) -> Pair:
    """Return neighbors whose row is in keys that are always found; a replaced row of one column leaves its key."""
    other = 1.0 if d == 1 else 0.0
    others = [[*[0.0] * d, label] for label in {0.0, other} for _ in range(40)]
    return rows([*[1.0] * d, 0.0], *others), rows(*[[*[-1.0] * d, other]] * (not added), *others)


def found_entry(neighbors: Neighbors, apart: bool) -> Entry:
    """Return means of groups that nobody declared."""
    added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
    options, d = {**(APART if apart else OPTIONS), "neighbors": neighbors}, 1 if apart else 2
    right, pair = GroupMeans(**options), crowded(added, d)
    pairs, few = (labeled_rows if added else pairs_of_rows)(d), staying(d=d)
    plan, own = right.plan(len(pair[0]), d), right.plan(len(few[0]), d)
    assert isinstance(stage_of(plan), KeyCounts) == apart

    def steps(data: Dataset) -> list[Steps]:
        return [of_all_keys(right, own, data)]

    bugs = [
        ("half the noise", HalfNoise(**options), pair, 20_000),
        ("a threshold too low", LowThreshold(**options), alone(added, d), 60_000 if apart else 20_000),
    ]
    if apart:
        bugs.append(("shares that nobody pays for", SharesUnpaid(**options), pair, 20_000))
    return Entry(
        name=f"means of groups, discovered{', counts apart' * apart}{', private size' * added}",
        covers=GroupMeans,
        proof="discovery.md",
        plan=plan,
        integers=steps,
        pairs=pairs,
        draw=likelihood(right, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.2 if added else 0.4,
        public=public(options),
        estimator=right,
        stages=(widened(stage_of(plan)),),
        bugs=tuple(
            PlantedBug(name, likelihood(made, near), *near, options["epsilon"], options["delta"], trials)
            for name, made, near, trials in bugs
        ),
        understated=(
            Understated(
                "less than a row moves" if added else "a change of the key left out",
                replace(plan, stages=(widened(stage_of(OnlyTheColumns(**options).plan(len(pair[0]), d))),)),
                steps,
                pairs,
            ),
        ),
    )


def entries() -> Iterator[Entry]:
    for apart in (False, True):
        yield from (found_entry(neighbors, apart) for neighbors in Neighbors)
