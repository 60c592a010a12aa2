"""Cells of the regressions: outcomes drawn by a model with known coefficients, and questions about these."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import f as fisher
from scipy.stats import norm
from scipy.stats import t as student

from dpstats import regression
from dpstats.means import UnknownBounds
from tests.outside.statements.outcomes import (
    FAMILIES,
    LINEAR,
    Beside,
    Outcomes,
    bound_outcome,
    draw_model,
    draw_slopes,
    rule_error,
)
from tests.outside.statements.populations import (
    LIMITED,
    SIZE,
    Draw,
    Floats,
    draw_bounds,
    draw_kind,
    draw_rows,
    draw_style,
    draw_values,
    drop_some,
    log_uniform,
)
from tests.outside.statements.private_bounds import fit_found
from tests.outside.statements.verdict import Answer, Cell

EXACT = 1e4
"""Epsilon from which noise is nothing, so that the package must agree with others."""
TOLERANCE = 2.0
"""Standard errors by which a coefficient may differ from that of statsmodels, which gives no row less weight."""
_MOST, _PARTS = 8, 5
"""Models without some hidden columns, at most, and places between each of them and the whole model."""
_DRAWS = 4
"""Outcomes of every row, from which the coefficients of clipped ones are computed."""


def draw_chosen(draw: Draw) -> Cell:
    """Return a random cell of a regression that chooses bounds from the rows, or those of some columns."""
    return draw_cell(draw, chosen=True)


def draw_far(draw: Draw) -> Cell:
    """Return a random cell of a regression whose bounds of one or two columns are far beyond their values."""
    return draw_cell(draw, far=True)


def draw_cell(draw: Draw, question: str = "", family: str = "", chosen: bool = False, far: bool = False) -> Cell:
    """Return a random cell of a regression, with this question and estimator if they are given."""
    some = [0.55, 0.0, 0.15, 0.15, 0.15] if chosen else [0.3, 0.15, 0.25, 0.15, 0.15]
    name = family or str(draw.choice(FAMILIES, p=some))
    n, d = round(log_uniform(draw, 50, 50_000)), int(draw.integers(1, 7))
    epsilon = EXACT if draw.random() < 0.1 else log_uniform(draw, 0.1, 10)
    if far:  # so that some columns are seen
        n, epsilon = max(n, 2000), max(epsilon, 0.5)
    plain = draw.random() < 0.1
    kinds = ["normal" if plain else draw_kind(draw) for _ in range(d)]
    facts: dict[str, Any] = {"n": n, "epsilon": float(f"{epsilon:.3g}"), "x": ", ".join(kinds)}
    columns = [draw_values(draw, kind) for kind in kinds]
    X = draw_rows(draw, columns)
    styles = ["tight" if plain else draw_style(draw) for _ in kinds]
    box = np.array([
        draw_bounds(draw, values, "tight" if kind in LIMITED and style == "shifted" else style)
        for kind, values, style in zip(kinds, columns, styles, strict=True)
    ])  # fmt: skip
    if far:
        some = draw.choice(d, min(d, int(draw.integers(1, 3))), replace=False).tolist()
        times = [log_uniform(draw, 30, 1000) for _ in some]
        for j, factor in zip(some, times, strict=True):
            middle, half = box[j].mean(), np.ptp(box[j]) / 2
            box[j] = middle - factor * half, middle + factor * half
            styles[j] = f"{factor:.0f}x"
    facts["x bounds"] = ", ".join(styles)
    options: dict[str, Any] = {"x_bounds": box, "epsilon": epsilon, "delta": float(draw.choice([1e-6, 1e-9]))}
    if name in FAMILIES[:3] and draw.random() < 0.1:
        options["fit_intercept"], facts["no intercept"] = False, True
    if name == LINEAR[0] and draw.random() < 0.3:
        options["cov_type"] = "nonrobust"
    beside = Beside(draw, name, facts, X)
    equal = name == LINEAR[1] or "cov_type" in options
    if equal and "weights" in beside.names:
        options.pop("cov_type", None)
    slopes = draw_slopes(draw, X, kinds, 1.5 if name in FAMILIES[3:] else 5.0)
    model = draw_model(draw, name, X, slopes, facts, equal)
    if beside.role == "offset" and "offset" in beside.names and name in LINEAR:
        unit = max(float(model.eta.std()), 1e-6)  # an offset in the unit of the outcome
        beside.offset = beside.offset * unit  # type: ignore[attr-defined]
        beside.options["offset_bounds"] = (-3 * unit, 3 * unit)
    options |= bound_outcome(draw, name, model, beside, facts) | beside.options
    missing = draw.uniform(0, 0.3) if draw.random() < 0.3 else 0.0
    if missing:
        options["missing"], facts["missing"] = "drop", f"{missing:.2f}"
    if name == FAMILIES[3] and draw.random() < 0.5:
        options["overdispersion"] = facts["overdispersion"] = float(draw.choice([0.0, 0.3, 3.0]))
    if "cov_type" in options:
        facts["covariance"] = "nonrobust"
    if chosen:
        return Chooser(draw, kinds, name, model, beside, options, facts, missing, n).cell(draw, question)
    return (FarAsker if far else Asker)(name, model, beside, options, facts, missing, n, plain).cell(draw, question)


class Asker:
    """Draws samples of a population, fits an estimator, and asks a question."""

    def __init__(
        self, name: str, model: Outcomes, beside: Beside, options: dict[str, Any], facts: dict[str, Any],
        missing: float, n: int, plain: bool,
    ) -> None:  # fmt: skip
        self.name, self.model, self.beside, self.options, self.facts = name, model, beside, options, facts
        self.missing, self.n, self.plain = missing, n, plain
        self.limits = options.get("y_bounds", (-np.inf, np.inf))
        self.first = int(options.get("fit_intercept", True))
        self.truth = model.params[1 - self.first :]
        self.names = ["Intercept"] * self.first + [f"x{j}" for j in range(model.X.shape[1])]
        if name in LINEAR:
            low, high = options["y_bounds"]
            facts["narrow residuals"] = bool(np.sqrt(model.meat.mean()) < (high - low) / 12)
        weights = getattr(beside, "weights", np.ones(1))
        rows = n * (1 - missing) * float(weights.mean())
        self.rule = rule_error(model, self.box, rows, options["epsilon"], options["delta"], bool(self.first))

    @property
    def box(self) -> Floats:
        """Bounds of all columns of the model."""
        box: Floats = self.options["x_bounds"]
        return box

    def read(self, X: Floats) -> Any:
        """Return rows as the estimator takes them."""
        return X

    def sample(self, draw: Draw) -> tuple[Floats, Floats, dict[str, Floats]]:
        """Return rows, outcomes, and what is beside them."""
        rows = draw.integers(SIZE, size=self.n)
        y = self.model.draw(draw, self.beside.predictor(self.model.eta, rows), rows)
        X, y = drop_some(draw, self.missing, self.model.X[rows], y)
        return X, y, {name: getattr(self.beside, name)[rows] for name in self.beside.names}

    def fit(self, draw: Draw) -> tuple[Any, Any]:
        """Return a fit of a sample, and the sample with the generator of more rows."""
        X, y, beside = self.sample(draw)
        made = getattr(regression, self.name)(**self.given, random_state=int(draw.integers(2**31)))
        return self.fitted_to(made, self.read(X), y, **beside), (X, y, beside, draw)

    @property
    def given(self) -> dict[str, Any]:
        """The options of the estimator."""
        return self.options

    def fitted_to(self, made: Any, X: Any, y: Floats, **beside: Floats) -> Any:
        """Return a fit of an estimator."""
        return made.fit(X, y, **beside)

    def questions(self) -> list[Callable[[Draw], Cell]]:
        """Return what this estimator can be asked where noise is not nothing."""
        questions: list[Callable[[Draw], Cell]] = [self.interval, self.test, self.combination, self.joint, self.fitted]
        if len(self.truth) > self.first + 1:
            questions.append(self.simultaneous)
        if self.name in FAMILIES[3:]:
            questions.append(self.ratio)
        if self.facts.get("residuals") == "normal" and self.facts["spread"] == "equal":
            questions.append(self.outcome)
        if self.plain and not self.missing and not self.beside.names:
            questions = [self.planned]
        return questions

    def cell(self, draw: Draw, question: str) -> Cell:
        """Return the cell of a question, by default a random one that this estimator answers."""
        questions = self.questions()
        if self.options["epsilon"] >= EXACT and draw.random() < 0.5:
            questions = [self.public]
        chosen = getattr(self, question) if question else questions[draw.integers(len(questions))]
        cell: Cell = chosen(draw)
        return cell

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        """Return a cell whose question is asked of a fit and its sample: whether the answer is wrong.

        The length is that of the 95% interval of the last coefficient that the question is about.
        """
        place = list(about)[-1]

        def answer(draw: Draw) -> Answer:
            model, sample = self.fit(draw)
            low, high = model.estimates(self._asked(place)).confidence_interval()
            summary = model.summary()
            assumed = [f"{name} {text}" for name, text in summary.facts if "assume" in name]
            notes = [*summary.notes, *assumed, *model.plan_.notes()]
            return Answer(bool(ask(model, sample)), notes, float(high[0] - low[0]))

        reference = float(2 * norm.isf(0.025) * np.sqrt(self.rule[place, place]))
        about = [self.names[j] for j in about]
        return Cell(self.name, question, self.facts, about, nominal, answer, reference, **more)

    def _usual(self, weights: Any, nominal: float, side: str = "two-sided", joint: bool = False) -> Any:
        """Return what statsmodels says about linear combinations of coefficients: whether it is wrong.

        Intervals of several combinations are Bonferroni's.
        """
        weights = np.atleast_2d(np.asarray(weights, dtype=np.float64))

        def without_privacy(draw: Draw) -> bool:
            found = self._fit_others(*self.sample(draw))
            if found is None:
                return True
            if not np.allclose(weights @ _decided(found), weights, atol=1e-6):
                return False  # others choose one of many answers, which excuses nothing
            free = max(found.nobs - len(self.truth), 1)
            off = weights @ (found.params - self.truth)
            cov = weights @ found.cov_params() @ weights.T
            if joint:
                statistic = off @ np.linalg.lstsq(cov, off, rcond=None)[0] / len(off)
                return not fisher.sf(statistic, len(off), free) >= nominal
            z = off / np.sqrt(np.diagonal(cov))
            z = {"less": -z, "greater": z}.get(side, np.abs(z))
            tails = (2 if side == "two-sided" else 1) * len(off)
            return not (z <= student.isf(nominal / tails, free)).all()

        return without_privacy

    def _unit(self, places: Any) -> Floats:
        """Return the combinations that are these coefficients."""
        return np.eye(len(self.truth))[list(places)]

    def _asked(self, place: int) -> str | int:
        return self.names[place] if place < self.first else place - self.first

    def interval(self, draw: Draw) -> Cell:
        """Ask for an interval of one coefficient, at a level, with one or two ends."""
        place, nominal = int(draw.integers(len(self.truth))), float(draw.choice([0.2, 0.05, 0.01]))
        side = str(draw.choice(["two-sided", "two-sided", "less", "greater"]))

        def ask(model: Any, sample: Any) -> bool:
            found = model.estimates(self._asked(place))
            return outside(found.confidence_interval(1 - nominal, alternative=side), self.truth[place])

        usual = self._usual(self._unit([place]), nominal, side)
        return self._cell(f"interval {side} {1 - nominal:g}", [place], nominal, ask, without_privacy=usual)

    def simultaneous(self, draw: Draw) -> Cell:
        """Ask for intervals of all slopes together."""
        nominal = float(draw.choice([0.2, 0.05, 0.01]))

        def ask(model: Any, sample: Any) -> bool:
            found = model.confidence_interval(1 - nominal, simultaneous=True)
            return outside(found, self.truth[self.first :])

        slopes = range(self.first, len(self.truth))
        usual = self._usual(self._unit(slopes), nominal)
        return self._cell(f"intervals together {1 - nominal:g}", slopes, nominal, ask, without_privacy=usual)

    def ratio(self, draw: Draw) -> Cell:
        """Ask for intervals of rate ratios."""
        place, nominal = int(draw.integers(1, len(self.truth))), 0.05

        def ask(model: Any, sample: Any) -> bool:
            low, high = (end[place - 1] for end in model.rate_ratio_interval(1 - nominal))
            return not low <= np.exp(self.truth[place]) <= high

        usual = self._usual(self._unit([place]), nominal)
        return self._cell("rate ratio", [place], nominal, ask, without_privacy=usual)

    def test(self, draw: Draw) -> Cell:
        """Test the true value of a coefficient."""
        place, side = int(draw.integers(len(self.truth))), str(draw.choice(["two-sided", "less", "greater"]))
        asked = self._asked(place)

        def ask(model: Any, sample: Any) -> bool:
            return model.test(asked, value=self.truth[place], alternative=side).pvalue[0] < 0.05

        usual = self._usual(self._unit([place]), 0.05, side)
        return self._cell(f"test {side}", [place], 0.05, ask, is_test=True, without_privacy=usual)

    def combination(self, draw: Draw) -> Cell:
        """Test a true linear combination by ``t_test``, written as text."""
        some = sorted(draw.choice(len(self.truth), min(2, len(self.truth)), replace=False).tolist())
        factors = draw.choice([1.0, -1.0, 2.0], len(some))
        text = " + ".join(f"{factor} * {self.names[j]}" for factor, j in zip(factors, some, strict=True))

        def ask(model: Any, sample: Any) -> bool:
            value = float(factors @ self.truth[some])
            pvalue = model.t_test(f"{text} = {value!r}".replace("+ -", "- ")).pvalue
            return np.ravel(pvalue)[0] < 0.05

        usual = self._usual(factors @ self._unit(some), 0.05)
        return self._cell("t_test", some, 0.05, ask, is_test=True, without_privacy=usual)

    def joint(self, draw: Draw) -> Cell:
        """Test several true values by ``f_test``."""
        many = int(draw.integers(1, len(self.truth) + 1))
        some = sorted(draw.choice(len(self.truth), many, replace=False).tolist())

        def ask(model: Any, sample: Any) -> bool:
            text = ", ".join(f"{self.names[j]} = {float(self.truth[j])!r}" for j in some)
            return model.f_test(text).pvalue < 0.05

        usual = self._usual(self._unit(some), 0.05, joint=True)
        return self._cell(f"f_test of {many}", some, 0.05, ask, is_test=True, without_privacy=usual)

    def fitted(self, draw: Draw) -> Cell:
        """Ask for the mean outcome of a row of the population."""
        row, nominal = self.model.X[draw.integers(SIZE)], float(draw.choice([0.2, 0.05, 0.01]))
        weights = np.append(np.ones(self.first), row)

        def ask(model: Any, sample: Any) -> bool:
            value = float(weights @ self.truth)
            mean = expit(value) if self.name == FAMILIES[2] else np.exp(value) if self.name in FAMILIES[3:] else value
            return outside(model.get_prediction(self.read(row[None])).confidence_interval(1 - nominal), mean)

        usual = self._usual(weights, nominal)
        # A row of zeros without an intercept is about no coefficient.
        about = np.flatnonzero(weights) if weights.any() else np.arange(len(weights))
        return self._cell(f"fitted value {1 - nominal:g}", about, nominal, ask, without_privacy=usual)

    def outcome(self, draw: Draw) -> Cell:
        """Ask for one more outcome, where residuals are normal and of one spread, as the interval assumes."""
        row, nominal = int(draw.integers(SIZE)), float(draw.choice([0.2, 0.05, 0.01]))
        place = np.array([row])

        def ask(model: Any, sample: Any) -> bool:
            value = self.model.draw(sample[-1], self.model.eta[place], place)
            return outside(model.predict_interval(self.read(self.model.X[place]), 1 - nominal, of="outcome"), value)

        return self._cell(f"one outcome {1 - nominal:g}", range(len(self.truth)), nominal, ask)

    def planned(self, draw: Draw) -> Cell:
        """Compare the error of a slope with the one that the plan's noise ratio promises: at most 1.2 times it."""
        place = int(draw.integers(self.first, len(self.truth)))
        X, model = self.model.X, self.model
        rows = np.column_stack([np.ones(SIZE)] * self.first + [X])
        bread, meat = (rows.T @ (rows * part[:, None]) / SIZE for part in (model.bread, model.meat))
        inverse = np.linalg.inv(bread)
        sampling = float((inverse @ meat @ inverse)[place, place] / self.n)

        def ask(model: Any, sample: Any) -> bool:
            planned = np.sqrt(sampling * (1 + model.plan_.noise_ratio**2))
            return abs(model.params_[place] - self.truth[place]) > 1.96 * 1.2 * planned

        return self._cell("planned error", [place], 0.05, ask)

    def public(self, draw: Draw) -> Cell:
        """Compare a coefficient with that of statsmodels."""
        place = int(draw.integers(len(self.truth)))

        def ask(model: Any, sample: Any) -> bool:
            estimate, error = self.statsmodels(*sample[:3])
            # Where no rare outcome is in the sample, statsmodels knows of no error.
            unit = max(error[place], np.sqrt(model.params_cov_[place, place]))
            return abs(model.params_[place] - estimate[place]) > TOLERANCE * unit

        return self._cell("as statsmodels", [place], 0.05, ask)

    def statsmodels(self, X: Floats, y: Floats, beside: dict[str, Floats]) -> tuple[Floats, Floats]:
        """Return coefficients and standard errors without privacy, of the complete rows; NaN where others fail.

        NaN too where a design does not determine a coefficient: others then choose one.
        """
        found = self._fit_others(X, y, beside)
        if found is None:
            return np.full(len(self.truth), np.nan), np.full(len(self.truth), np.nan)
        decided = np.isclose(np.diagonal(_decided(found)), 1.0, atol=1e-6)
        return np.where(decided, found.params, np.nan), np.where(decided, found.bse, np.nan)

    def _fit_others(self, X: Floats, y: Floats, beside: dict[str, Floats]) -> Any:
        """Return the fit of statsmodels to the complete rows, None where it fails."""
        import statsmodels.api as sm

        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
        if self.name in LINEAR:  # the others allow for clipped outcomes
            y = y.clip(*self.limits)
        y, X = y[kept], np.column_stack([np.ones(len(X))] * self.first + [X])[kept]
        beside = {name: values[kept] for name, values in beside.items()}
        weights = beside.get("weights", np.ones(len(y)))
        offset = beside.get("offset", np.log(beside["exposure"]) if "exposure" in beside else np.zeros(len(y)))
        if self.name in LINEAR:
            return sm.WLS(y - offset, X, weights=weights).fit(cov_type="HC1")
        alpha = self.options.get("overdispersion", 1.0)
        kinds = sm.families
        of_counts = kinds.NegativeBinomial(alpha=alpha) if alpha else kinds.Poisson()
        family = {FAMILIES[2]: kinds.Binomial(), FAMILIES[3]: of_counts}.get(self.name, kinds.Gamma(kinds.links.Log()))
        if self.name == FAMILIES[4]:
            y = np.maximum(y, 1e-12 * y.mean())
        try:
            return sm.GLM(y, X, family, offset=offset, var_weights=weights).fit(cov_type="HC1")
        except (ValueError, np.linalg.LinAlgError):
            return None


class FarAsker(Asker):
    """Asks an estimator whose bounds of some columns are far beyond their values.

    If noise hides columns, the others are not fully adjusted for them. So an answer is wrong if it is for the
    coefficients of the model, for those of the model without some hidden columns, and for all between.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._without: dict[tuple[int, ...], Floats] = {}

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        def ask_about_all(model: Any, sample: Any) -> bool:
            truth, missed = self.truth, bool(ask(model, sample))
            hidden = [self.first + int(j) for j in np.flatnonzero(~np.asarray(model.identified_))]
            some = [each for k in range(1, len(hidden) + 1) for each in itertools.combinations(hidden, k)][-_MOST:]
            for each in some:
                for part in np.linspace(1, 0, _PARTS, endpoint=False):
                    if not missed:
                        return False
                    self.truth = truth + part * (self._fit_without(each) - truth)
                    try:
                        missed = bool(ask(model, sample))
                    finally:
                        self.truth = truth
            return missed

        return super()._cell(question, about, nominal, ask_about_all, **more)

    def _fit_without(self, hidden: tuple[int, ...]) -> Floats:
        """Return the coefficients that fit all rows of the frame without some columns, whose own are 0."""
        if hidden not in self._without:
            X = np.column_stack([np.ones(SIZE)] * self.first + [self.model.X])
            kept = np.setdiff1d(np.arange(X.shape[1]), hidden)
            rows, weights = X[:, kept], getattr(self.beside, "weights", np.ones(SIZE))
            predictor = self.beside.predictor(self.model.eta, np.arange(SIZE))
            offset = predictor - self.model.eta
            b = np.linalg.lstsq(rows, self.model.eta, rcond=None)[0]
            for _ in range(50):
                mean, fitted = self._means(predictor), self._means(offset + rows @ b)
                slope = {FAMILIES[2]: fitted * (1 - fitted)}.get(self.name, fitted)
                spread = np.ones(SIZE)
                if self.name in LINEAR:
                    slope = spread
                elif self.name == FAMILIES[3]:
                    spread = 1 + float(self.options.get("overdispersion", 1.0)) * fitted
                elif self.name == FAMILIES[4]:
                    spread = fitted
                part = weights / spread
                hessian = rows.T @ (rows * (part * slope)[:, None])
                b = b + np.linalg.lstsq(hessian, rows.T @ (part * (mean - fitted)), rcond=None)[0]
            found = np.zeros(X.shape[1])
            found[kept] = b
            self._without[hidden] = found
        return self._without[hidden]

    def _means(self, predictor: Floats) -> Floats:
        """Return the mean outcomes of linear predictors."""
        if self.name in LINEAR:
            return predictor
        return np.asarray(expit(predictor) if self.name == FAMILIES[2] else np.exp(np.minimum(predictor, 50.0)))


class Chooser(Asker):
    """Asks an estimator that chooses bounds from the rows, or those of some columns.

    Coefficients describe clipped outcomes, which have no exact linear model. So an answer is wrong if it is for the
    coefficients of the model, and for those of the least-squares fit to the outcomes that the fit clipped.
    """

    def __init__(self, draw: Draw, kinds: list[str], *given: Any) -> None:
        super().__init__(*given, False)
        # Columns of few values have bounds that everybody knows.
        asked = [kind not in LIMITED and draw.random() < 0.8 for kind in kinds]
        share = float(draw.choice([0.2, 0.2, 0.5]))
        pairs = [tuple(pair) for pair in self.box.tolist()]
        one = UnknownBounds(share=share)
        self.chosen: dict[str, Any] = {}
        if any(asked):
            entries = [one if own else pair for own, pair in zip(asked, pairs, strict=True)]
            self.chosen["x_bounds"] = one if all(asked) else entries
        if self.name == LINEAR[0] and (not any(asked) or draw.random() < 0.6):
            self.chosen["y_bounds"] = one
        count = sum(asked) + ("y_bounds" in self.chosen)
        if draw.random() < 0.9:  # nearly all cells have enough rows
            least = math.ceil(50 * count / (share * min(self.options["epsilon"], 10)) * draw.uniform(1, 4))
            self.facts["n"] = self.n = min(max(self.n, least), 50_000)
        names = [name for name, own in zip(self.names[self.first :], asked, strict=True) if own]
        self.facts |= {"chosen": ", ".join([*names, *["y"] * ("y_bounds" in self.chosen)]), "share": share}

    @property
    def given(self) -> dict[str, Any]:
        return {**self.options, **self.chosen}

    def fitted_to(self, made: Any, X: Any, y: Floats, **beside: Floats) -> Any:
        return fit_found(made, X, y, **beside) if self.chosen else made.fit(X, y, **beside)

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        def ask_about_both(model: Any, sample: Any) -> bool:
            if not ask(model, sample) or not hasattr(model, "y_bounds_"):
                return bool(ask(model, sample))
            truth = self.truth
            self.truth = truth + self._moved(sample[-1], model.y_bounds_)
            try:
                return bool(ask(model, sample))
            finally:
                self.truth = truth

        return super()._cell(question, about, nominal, ask_about_both, **more)

    def _moved(self, draw: Draw, limits: Floats) -> Floats:
        """Return the change of the coefficients of least squares by clipped outcomes."""
        every = np.arange(SIZE)
        design = np.column_stack([np.ones(SIZE)] * self.first + [self.model.X])
        weights = getattr(self.beside, "weights", np.ones(SIZE))
        changes = []
        for _ in range(_DRAWS):
            y = self.model.draw(draw, self.beside.predictor(self.model.eta, every), every)
            root = np.sqrt(weights)
            changes.append(np.linalg.lstsq(design * root[:, None], (y.clip(*limits) - y) * root, rcond=None)[0])
        return np.asarray(np.mean(changes, axis=0))


def _decided(found: Any) -> Floats:
    """Return the projection on the combinations of coefficients that a design determines."""
    X = found.model.exog
    scale = np.abs(X).max(axis=0)
    scale[scale == 0] = 1.0
    back: Floats = np.linalg.pinv(X / scale) @ (X / scale)
    return back * scale / scale[:, None]


def outside(interval: Any, value: Any) -> bool:
    """Return whether a value is outside an interval."""
    low, high = (np.ravel(end) for end in interval)
    return bool(np.any((value < low) | (value > high)))
