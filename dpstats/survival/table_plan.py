"""Plans of survival tables: stages, noise, and the width to expect at a stated curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_level, check_real
from dpstats.errors import ScaleOutOfRange, attempt, refuse
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import additive_stages
from dpstats.survival.cells import TABLE, Cells, LeastSquares, Levels, first_edge, levels_for
from dpstats.survival.curves import N_DRAWS, Curves, PlacedCurves, critical_values, limits

Floats = NDArray[np.float64]

MOST_BINS = 500
MOST_CELLS = 200_000
_BITS = (16, 12, 8, 4, 0)


@dataclass(frozen=True)
class CellsPlan(ReleasePlan):
    """Base of the plans with a stage that releases a survival table.

    Attributes
    ----------
    cells : Cells
        The public bins, causes and groups.
    """

    cells: Cells = field(repr=False)
    _pooled: ClassVar[bool] = False  # whether positions of all groups are in the same sums

    @property
    def levels(self) -> Levels:
        """The sums that are released."""
        cells = self.cells
        pure = self.table_stage.noise == "laplace"
        return levels_for(cells.n_bins, cells.n_causes, pure, cells.position_share, self._pooled)

    @property
    def table_stage(self) -> Stage:
        """The stage that releases the table."""
        stage = self.stage(TABLE)
        assert isinstance(stage, Stage)
        return stage

    @cached_property
    def least_squares(self) -> LeastSquares:
        """What makes cells of the released sums, and the covariance of their noise."""
        std = np.asarray(self.table_stage.noise_std)[: len(self.levels.weights)]
        return LeastSquares.build(self.levels, std, self.cells.n_groups)

    @property
    def position_std(self) -> Floats | None:
        """Standard deviations of the noise in both sums of positions of a bin, None without positions."""
        if not self.cells.position_share:
            return None
        return np.asarray(self.table_stage.noise_std)[[-self.cells.n_bins - 1, -1]]

    def estimate_cells(self, released: Any) -> tuple[Floats, Floats | None]:
        """Return the cells (..., groups, cells) of a release, and positions (..., groups, 2, bins) if it has them."""
        sums, positions = self.levels.split_release(released, self.cells.n_groups)
        return self.least_squares.cells(sums, self.n_samples), positions


@dataclass(frozen=True)
class TablePlan(CellsPlan):
    """The plan of releasing a survival table.

    Attributes
    ----------
    cells : Cells
    groups : tuple, optional
        The declared groups.
    causes : tuple
        The declared causes of an event.
    """

    groups: tuple[Any, ...] | None
    causes: tuple[Any, ...]

    @property
    def discrete(self) -> bool:
        """Whether events happen at edges only."""
        return self.cells.discrete

    @cached_property
    def cell_noise(self) -> Floats:
        """Simulated noise of a group's cells, by its public distribution: shape (draws, cells).

        With positions, their noise and normal variables for the unknown part of the shapes follow: 3 bins more.
        """
        stage = self.table_stage
        scale, std = (tuple(np.asarray(each).tolist()) for each in (stage.noise_scale, stage.noise_std))
        return _draw_cell_noise(self.levels, stage.noise, scale, std, self.cells.n_groups)

    def curves(self, cells: Floats, positions: Floats | None = None) -> Curves:
        """Return the curves of cells (releases, cells) of one group, and of its positions (releases, 2, bins)."""
        size = self.cells.n_bins, self.cells.n_causes
        if positions is None or self.position_std is None:
            return Curves(cells, *size, self.least_squares.own)
        return PlacedCurves(cells, *size, self.least_squares.own, positions, self.position_std)

    @property
    def at_risk_std(self) -> Floats:
        """Standard deviation of the noise of a group's number at risk in each bin."""
        return self.curves(np.zeros((1, self.cells.size))).at_risk_std

    def expected_width(self, survival: Any, censoring: Any = None, *, confidence_level: float = 0.95) -> Floats:
        """Return the expected width of a pointwise interval at the end of each bin, for a stated curve.

        Parameters
        ----------
        survival : callable, or array of shape (n_bins + 1,)
            The survival at each edge, from 1 on. If the first bin is time 0, the survival from time 0 on: (n_bins,).
        censoring : callable, or array of the same shape, optional
            The probability of not being censored up to each edge. None: censored at the horizon only.
        confidence_level : float, default=0.95

        Returns
        -------
        array of shape (n_bins,)
            1 beyond the usable range. Declared groups are taken to have equal parts of all rows.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.survival import PrivateSurvival
        >>> plan = PrivateSurvival(horizon=5.0, bins=10).plan(5000)
        >>> plan.expected_width(lambda t: np.exp(-t / 5))[[0, 4, 9]].round(3)
        array([0.017, 0.028, 0.027])
        """
        level = check_level("confidence_level", confidence_level)
        edges = np.asarray(self.cells.edges)
        start = first_edge(self.cells)
        alive = _heights("survival", survival, edges, start)
        free = np.ones_like(edges) if censoring is None else _heights("censoring", censoring, edges, start)
        rows = self.n_samples / self.cells.n_declared
        expected = expected_cells(alive, free, discrete=self.discrete)
        others = np.zeros((self.cells.n_causes - 1) * self.cells.n_bins)
        cells = rows * np.insert(expected, self.cells.n_bins, others)
        positions = None
        if self.cells.position_share:
            # Rows that are censored at a constant rate: v (1 - v) is 1/6 on average.
            left = -np.diff(free) * (alive[1:] + alive[:-1]) / 2
            positions = rows * np.array([[np.zeros_like(left), left / 6]])
        curves = self.curves(cells[None], positions)
        critical, _ = critical_values(curves, self.cell_noise, level)
        low, high = limits(curves, critical)
        width = high - low
        return np.asarray(np.where(low + high > 0, width, 1.0)[0])

    def facts(self) -> dict[str, Any]:
        """Return further facts of the plan, by name."""
        found: dict[str, Any] = {
            "bins": self.cells.n_bins,
            "horizon": self.cells.edges[-1],
            "noise of the number at risk": float(self.at_risk_std[0] if self._grouped else self.at_risk_std.max()),
        }
        if self.groups is not None:
            found["groups"] = [str(group) for group in self.groups]
        if len(self.causes) > 1:
            found["causes"] = [str(cause) for cause in self.causes]
        return found

    @property
    def _grouped(self) -> bool:
        return self.groups is not None

    def notes(self) -> list[str]:
        """Return the facts as sentences."""
        std, m = self.at_risk_std, self.cells.n_bins
        edges = np.asarray(self.cells.edges)
        half = 0.5 ** (edges[first_edge(self.cells) :] / edges[-1])
        width = self.expected_width(half)
        each = f" of each group of n/{self.cells.n_declared}" if self._grouped else ""
        share = self.cells.position_share
        positions = f", positions inside them with {100 * share:g}% of the privacy" if share else ""
        notes = [
            f"{m} bins up to {edges[-1]:g}{positions}",
            f"noise of the number at risk{each}: sd {std.min():.3g} to {std.max():.3g} {self.guarantee.units}",
            f"expected width of a 95% interval at the horizon, if half{each} survive to it: {width[-1]:.3g}",
        ]
        rows = self.n_samples / self.cells.n_declared
        if rows < 4 * std.max():
            notes.append(
                f"warning: groups of fewer than {4 * std.max():.0f} {self.guarantee.units} are not distinguishable "
                f"from noise, and n/{self.cells.n_declared} is fewer. Use more rows, a larger epsilon or fewer groups."
            )
        return notes


@lru_cache(maxsize=4)  # fits of the same plan share the draws
def _draw_cell_noise(
    levels: Levels, noise: str, scale: tuple[float, ...], std: tuple[float, ...], n_groups: int
) -> Floats:
    """Return the noise of `TablePlan.cell_noise`."""
    count, every = len(levels.weights), np.array(scale)
    squares = LeastSquares.build(levels, np.array(std[:count]), n_groups)
    found = squares.draw(noise, every[:count], N_DRAWS)
    if levels.position_share:
        rng, shape = np.random.default_rng(1), (N_DRAWS, 2 * levels.n_bins)
        drawn = rng.laplace(size=shape) if noise == "laplace" else rng.normal(size=shape)
        found = np.hstack([found, drawn * every[-shape[1] :], rng.normal(size=(N_DRAWS, shape[1] // 2))])
    found.flags.writeable = False
    return found


def table_stage(cells: Cells, levels: Levels, epsilon: float, delta: float) -> Stage:
    """Return the stage that releases a table alone."""
    (stage,) = additive_stages([levels.integers(cells)], epsilon, delta)
    return stage


def finest_cells(
    edges: Sequence[float],
    n_causes: int,
    n_groups: int,
    build: Callable[[Cells], Any],
    *,
    discrete: bool = False,
    position_share: float = 0.0,
    others: bool = False,
) -> Any:
    """Build from the cells with the finest steps for which noise can be drawn: a public choice."""
    for bits in _BITS:
        try:
            return build(Cells(tuple(edges), n_causes, n_groups, bits, discrete, position_share, others))
        except ScaleOutOfRange:
            if not bits:
                raise
    raise AssertionError


_LONGEST = 1e140
"""Limit for the horizon, and for its inverse. Within it, squares of times are finite floats that are not 0."""


def _check_length(name: str, end: float) -> float:
    return check_real(name, end, at_least=1 / _LONGEST, at_most=_LONGEST)


def check_edges(horizon: Any, edges: Any, bins: Any, default: int, discrete: bool = False) -> tuple[float, ...]:
    """Return the public edges of the bins, 0 first, or refuse the parameters that state them.

    Discrete times with declared edges from 0 have a first bin for events at time 0: 0 is then there twice.
    """
    if edges is None:
        if horizon is None:
            raise refuse(
                "horizon",
                allowed="given: the time up to which the curve is released",
                remedy="Choose it from public knowledge.",
            )
        end = _check_length("horizon", check_real("horizon", horizon, above=0))
        count = default if bins is None else check_integer("bins", bins, at_least=1, at_most=MOST_BINS)
        return tuple(np.linspace(0.0, end, count + 1).tolist())
    if bins is not None:
        raise refuse("bins", given=bins, allowed="None with edges", remedy="Give the number of bins, or their edges.")
    refusal = refuse("edges", given=edges, allowed=f"increasing finite times from 0 on, at most {MOST_BINS + 1}")
    given = attempt(lambda: np.array(edges, dtype=np.float64), Exception)
    if given is None or given.ndim != 1 or not given.size or not np.isfinite(given).all() or given[0] < 0:
        raise refusal
    at_start = discrete and bool(given[0] == 0)
    given = np.concatenate([[0.0], given]) if given[0] > 0 else given + 0.0
    if not 2 <= given.size <= MOST_BINS + 1 or not (np.diff(given) > 0).all():
        raise refusal
    _check_length("edges[-1]", given[-1])
    if horizon is not None and check_real("horizon", horizon, above=0) != given[-1]:
        raise refuse("horizon", given=horizon, allowed="the last of the edges", remedy="Omit it.")
    return (0.0,) * at_start + tuple(given.tolist())


def survival_plan(
    n: int,
    edges: Sequence[float],
    groups: tuple[Any, ...] | None,
    causes: tuple[Any, ...],
    discrete: bool,
    epsilon: float,
    delta: float,
    others: bool = False,
) -> TablePlan:
    """Return the plan of releasing one table of n rows; ``others``: with a group of the rows of undeclared labels."""
    declared = 1 if groups is None else len(groups)
    n_groups = declared + others
    check_cells(len(edges) - 1, len(causes), n_groups)
    m = len(edges) - 1
    # Positions inside the bins pay only where each of their sums has enough rows for its noise.
    strength = n * noise_strength(epsilon, delta) / (declared * m)
    share = 0.0 if discrete or strength < 50 else 0.05 if strength < 200 else 0.1
    levels = levels_for(m, len(causes), delta == 0, share)

    def build(cells: Cells) -> TablePlan:
        stage = table_stage(cells, levels, epsilon, delta)
        guarantee = PrivacyGuarantee(epsilon, delta)
        return TablePlan((stage,), guarantee, n, 1, cells=cells, groups=groups, causes=causes)

    plan: TablePlan = finest_cells(
        edges, len(causes), n_groups, build, discrete=discrete, position_share=share, others=others
    )
    return plan


def noise_strength(epsilon: float, delta: float) -> float:
    """Return the epsilon of the Laplace noise of about this standard deviation."""
    return 2 / gaussian_sigma(epsilon, delta) if delta else epsilon


def check_cells(n_bins: int, n_causes: int, n_groups: int) -> None:
    """Refuse a table of too many cells."""
    count = n_groups * ((n_causes + 1) * n_bins + 1)
    if count > MOST_CELLS:
        raise refuse("bins, causes and groups", got=f"{count:,}", allowed=f"not make more than {MOST_CELLS:,} cells")


def expected_cells(alive: Floats, free: Floats, *, discrete: bool = False) -> Floats:
    """Return the expected cells of a row, from the survival and the uncensored proportion at each edge."""
    middle = (free[1:] + free[:-1]) / 2
    events = -np.diff(alive) * (free[:-1] if discrete else middle)
    left = -np.diff(free) * (alive[1:] if discrete else (alive[1:] + alive[:-1]) / 2)
    part = 0.0 if discrete else 0.5
    at_edges = np.append(part * left, 0.0) + np.append(0.0, (1 - part) * left)
    at_edges[-1] += alive[-1] * free[-1]
    return np.concatenate([events, at_edges])


def _heights(name: str, curve: Any, edges: Floats, start: int) -> Floats:
    """Return a stated curve at all edges, which are those from ``start`` on, and 1 at the edge before them."""
    edges = edges[start:]
    try:
        given = np.asarray(curve(edges) if callable(curve) else curve, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros(0)
    inside = given.shape == edges.shape and bool(((given >= 0) & (given <= 1)).all())
    first = "at most 1" if start else "1"
    if not inside or (given[0] != 1 and not start) or (np.diff(given) > 0).any():
        raise refuse(
            name, allowed=f"a probability at each of the {edges.size} edges, {first} at time 0 and never increasing"
        )
    return np.concatenate([np.ones(start), given])
