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
from dpstats.privacy import Discovery, Neighbors, Plan
from dpstats.release.session import Session
from registry.entry import Dataset, Draw, Entry, PlantedBug, Understated
from registry.groups import NOBODY, Pair, pairs_of_rows, rows, staying
from registry.private_size import labeled_rows

OPTIONS = {"groups": "discover", "bounds": (-1.0, 1.0), "epsilon": 3.0, "delta": 1e-2}
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
            [
                own[key][block.name] if key in own else np.zeros(stage.width(block), dtype=np.int64)
                for key in KEYS
            ]
        )
        for block in stage.blocks
    }


def widened(stage: Discovery) -> Any:
    """Return the joint stage of all keys of the registry's datasets."""
    factor = len(KEYS) // stage.keys
    blocks = tuple(replace(block, size=factor * block.size) for block in stage.blocks)
    return replace(stage.touched, blocks=blocks)


def log_likelihood(
    stage: Discovery, key: dict[str, np.ndarray] | None, released: Any, place: int
) -> np.ndarray:
    """Return the logarithm of the density of what was released of a key, up to a constant of the key's noise."""
    counts = released[stage.counts.name][:, place, 0]
    found = np.isfinite(counts)
    if key is None:
        return np.where(found, -np.inf, 0.0)
    scale = stage.touched.scale_steps(stage.counts)
    count, most = float(key[stage.counts.name][0]), stage.threshold_steps
    total, constant = np.zeros(len(counts)), log_ndtr(most / scale)
    for block in stage.blocks:
        noise = stage.touched.scale_steps(block)
        off = (released[block.name][:, place] / np.asarray(block.spacing) - key[block.name]) / noise
        total -= (off**2 / 2).sum(axis=1) + block.size / 2 * math.log(math.sqrt(2 * math.pi) * noise)
    total = np.where(counts / stage.counts.spacing - count >= most, -np.inf, total - constant)  # type: ignore[operator]
    hidden = math.log(max(float(ndtr(min(most - count, most) / scale)), 1e-300)) - constant
    return np.where(found, total, hidden)


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
        return replace(
            plan, stages=(replace(stage, touched=replace(stage.touched, scale=stage.touched.scale / 2)),)
        )


class LowThreshold(GroupMeans):
    """Planted bug: a threshold one and a half standard deviations of the noise lower."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        lower = int(1.5 * stage.touched.scale_steps(stage.counts))
        return replace(plan, stages=(replace(stage, threshold_steps=stage.threshold_steps - lower),))


class OnlyTheColumns(GroupMeans):
    """Planted bug: a change of the key is not counted."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stage = stage_of(plan)
        touched = replace(
            stage.touched, sensitivity=stage.touched.sensitivity / 1.2, scale=stage.touched.scale / 1.2
        )
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


def alone(added: bool) -> Pair:
    """Return neighbors of which one alone has a key, with one row."""
    others = [[0.0, 0.0, 1.0]] * 4
    return rows([0.0, 0.0, 0.0], *others), rows(*[[0.0, 0.0, 1.0]] * (not added), *others)


def crowded(added: bool) -> Pair:
    """Return neighbors whose row is in a key that is always found."""
    others = [[0.0, 0.0, 0.0]] * 40
    return rows([1.0, 1.0, 0.0], *others), rows(*[[-1.0, -1.0, 0.0]] * (not added), *others)


def found_entry(neighbors: Neighbors) -> Entry:
    """Return means of groups that nobody declared."""
    added = neighbors is Neighbors.ADD_OR_REMOVE_ONE
    options = {**OPTIONS, "neighbors": neighbors}
    right, pair, pairs = GroupMeans(**options), crowded(added), (labeled_rows if added else pairs_of_rows)(2)
    few = staying()
    plan, own = right.plan(len(pair[0]), 2), right.plan(len(few[0]), 2)

    def steps(data: Dataset) -> list[Steps]:
        return [of_all_keys(right, own, data)]

    bugs = [
        ("half the noise", HalfNoise(**options), pair, 20_000),
        ("a threshold too low", LowThreshold(**options), alone(added), 20_000),
    ]
    return Entry(
        name=f"means of groups, discovered{', private size' * added}",
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
            PlantedBug(name, likelihood(made, near), *near, 3.0, 1e-2, trials)
            for name, made, near, trials in bugs
        ),
        understated=(
            Understated(
                "less than a row moves" if added else "a change of the key left out",
                replace(plan, stages=(widened(stage_of(OnlyTheColumns(**options).plan(len(pair[0]), 2))),)),
                steps,
                pairs,
            ),
        ),
    )


def entries() -> Iterator[Entry]:
    yield from map(found_entry, Neighbors)
