"""``dpstats regress``: coefficients of a linear or generalized linear model, with intervals that count the noise."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats.cli.declared import Pair, bounds_of, by_column, levels_of
from dpstats.cli.input import InputTable
from dpstats.cli.options import given, per_column, refuse_both
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import read_rows
from dpstats.errors import refuse, show

if TYPE_CHECKING:
    from dpstats.regression.formula import Formula

_BOUNDS_OF = {"weights": "weight_bounds", "offset": "offset_bounds", "exposure": "exposure_bounds"}
"""The estimator's parameter of the bounds of a further column."""
_FAMILIES = ("logistic", "counts", "gamma")
_FACTS = (
    "cov_type rows_ total_weight_ effective_rows_ scale_ clipped_share_ clipped_share_std_ clipped_offset_share_ "
    "clipped_offset_share_std_ clipped_exposure_share_ clipped_exposure_share_std_ clipped_weight_share_ "
    "clipped_weight_share_std_ outcome_rate_ clip_width_ unsettled_ separated_ counts_noise_std_"
)
"""Attributes of a fit that the JSON output has, where the fit has them."""


class _Model(NamedTuple):
    """What the options say of the model, from public names and numbers alone.

    Attributes
    ----------
    formula : Formula or None
        How the design is made of columns; None where it is the columns themselves.
    x_bounds, y_bounds
        Of the design and of the outcome.
    intercept : bool
    columns : list of str
        Columns to read from a file.
    levels : dict
        Declared levels of the categorical columns.
    further : dict
        Name and bounds of the column of weights, of offsets and of exposures, by the estimator's parameter.
    factors : dict
        Levels of the factors that are fitted by levels.
    """

    formula: Formula | None
    x_bounds: Any
    y_bounds: Any
    intercept: bool
    columns: list[str]
    levels: dict[str, list[str]]
    further: dict[str, tuple[str, Pair]]
    factors: dict[str, list[str]]


def _model(options: argparse.Namespace, d: int | None = None) -> _Model:
    """Return the model: of a formula, of named columns, or in a plan of ``d`` columns."""
    factors = levels_of(options.factor, "--factor")
    if factors and (options.formula is not None or options.levels is not None):
        raise refuse_both("--factor", "--formula or --levels")
    pairs, named = bounds_of(options.bounds)
    if options.formula is not None:
        for name in ("outcome", "column", "no_intercept"):
            if getattr(options, name, None):
                remedy = "Give it in the formula."
                raise refuse(
                    f"--{name.replace('_', '-')}", allowed="not be given with --formula", remedy=remedy
                )
        if pairs:
            raise refuse("--bounds", allowed="name their columns where there is a formula: NAME=LO,HI")
        further = _further(options, named)
        return _parsed(options.formula, named, levels_of(options.levels), options.logistic, further)
    if options.outcome is None:
        raise refuse("--outcome", allowed="be given, or --formula")
    if "column" not in options and options.levels is not None:
        remedy = "Give --columns NAME ..., or a --formula."
        raise refuse("--levels", allowed="have the names of columns in a plan", remedy=remedy)
    further = _further(options, named)
    for name, _ in further.values():
        named.pop(name, None)
    y_bounds = _outcome_bounds(named.pop(options.outcome, None), options.outcome, options.logistic)
    if "column" in options:
        model = _of_columns(options, pairs, named, y_bounds, further)
    else:
        # A plan of a number of columns
        d = d or 0
        if named and len(named) != d:
            allowed = f"name each of the --columns ({d}) or none"
            raise refuse("--bounds", got=str(len(named)), allowed=allowed)
        x_bounds = by_column([*named], pairs, named) if named else per_column("--bounds", pairs, d)
        model = _Model(None, x_bounds, y_bounds, not options.no_intercept, [], {}, further, {})
    if twice := [name for name in factors if name in (*model.columns, options.outcome)]:
        raise refuse("--factor", given=twice[0], allowed="name another column than other options")
    return model._replace(factors=factors)


def _further(options: argparse.Namespace, named: dict[str, Pair]) -> dict[str, tuple[str, Pair]]:
    """Return the names and the bounds of the columns of weights, of offsets and of exposures."""
    columns = {option: getattr(options, option) for option in _BOUNDS_OF if getattr(options, option)}
    if "offset" in columns and (options.counts or options.gamma):
        raise refuse_both("--offset", "--counts or --gamma", "Give --exposure.")
    if "exposure" in columns and not (options.counts or options.gamma):
        raise refuse("--exposure", allowed="be given with --counts or --gamma", remedy="Give --offset.")
    if columns and options.method != "newton":
        raise refuse_both(f"--{next(iter(columns))}", f"--method {options.method}")
    others = (options.outcome, *(getattr(options, "column", None) or []))
    for option, name in columns.items():
        if name not in named:
            raise refuse("--bounds", allowed=f"have the column of --{option}: {name}=LO,HI")
        if list(columns.values()).count(name) > 1 or name in others:
            raise refuse(f"--{option}", given=name, allowed="another column than each other option's")
    return {option: (name, named[name]) for option, name in columns.items()}


def _of_columns(
    options: argparse.Namespace,
    pairs: list[Pair],
    named: dict[str, Pair],
    y_bounds: Any,
    further: dict[str, tuple[str, Pair]],
) -> _Model:
    """Return the model of named columns. Where there are levels, it is that of a formula."""
    columns, outcome, levels = options.column or [], options.outcome, levels_of(options.levels)
    if not columns:
        raise refuse("--column", allowed="be given, once for each column, or --formula")
    if outcome in columns:
        raise refuse("--outcome", given=outcome, allowed="another column than each --column")
    for option, names in (("--bounds", named), ("--levels", levels)):
        if unknown := [name for name in names if name not in columns]:
            raise refuse(option, given=unknown[0], allowed="name a column of --column or --outcome")
    if both := [name for name in named if name in levels]:
        raise refuse("a column", given=both[0], allowed="have --bounds or --levels, not both")
    numbers = [name for name in columns if name not in levels]
    x_bounds = by_column(numbers, pairs, named)
    if not levels:
        read = [*columns, *(name for name, _ in further.values()), outcome]
        return _Model(None, x_bounds, y_bounds, not options.no_intercept, read, {}, further, {})
    each = x_bounds if isinstance(x_bounds, list) else [x_bounds] * len(numbers)
    bounds = dict(zip(numbers, each, strict=True))
    if not options.logistic:
        bounds[outcome] = y_bounds
    terms = " + ".join(f"`{name}`" for name in columns) + (" - 1" if options.no_intercept else "")
    return _parsed(f"`{outcome}` ~ {terms}", bounds, levels, options.logistic, further)


def _parsed(
    text: str,
    bounds: dict[str, Pair],
    levels: dict[str, list[str]],
    logistic: bool,
    further: dict[str, tuple[str, Pair]],
) -> _Model:
    from dpstats.regression.formula import parse

    formula = parse(text, bounds=bounds, levels=levels)
    if formula.response is None:
        raise refuse("--formula", given=text, allowed="have an outcome: 'y ~ x'")
    y_bounds = _outcome_bounds(formula.y_bounds, formula.response, logistic)
    others = [name for name, _ in further.values()]
    if twice := [name for name in others if name in (*formula.names, formula.response)]:
        raise refuse("--formula", given=twice[0], allowed="not have the column of another option")
    columns = list(dict.fromkeys([*bounds, *levels, *([formula.response] if logistic else []), *others]))
    return _Model(formula, formula.x_bounds, y_bounds, formula.has_intercept, columns, levels, further, {})


def _outcome_bounds(bounds: Any, name: str, logistic: bool) -> Any:
    if logistic and bounds is not None:
        remedy = "The outcome is 0 or 1."
        raise refuse(
            "--bounds", allowed=f"not have the outcome ({show(name)}) with --logistic", remedy=remedy
        )
    if not logistic and bounds is None:
        raise refuse("--bounds", allowed=f"have the outcome: {name}=LO,HI")
    return bounds


class RegressCommand(ReleaseCommand):
    """Regressions."""

    name = "regress"
    help = "private linear, logistic, count or gamma regression, with intervals that count the noise"
    description = (
        "Release the coefficients of a linear or generalized linear model, with standard errors and intervals that "
        "include sampling error and noise. Public: the number of rows, column names, bounds and levels. Neighbors "
        "differ in one row."
    )
    parameters = """
    --outcome NAME
        column to explain by the others
    --formula F
        in place of --outcome and --column: 'y ~ x1 + C(plan)' (needs the extra 'formula')
    --bounds LO_HI NAME=LO,HI ..., repeated
        public bounds, known without the data: of a column or the outcome by its name; without a name once for all other
        columns, or once per column in their order
    --levels NAME=A,B,..., repeated
        public levels of a column of categories; coefficients compare each with the first. A missing entry of a file is
        the empty level
    --factor NAME=A,B,..., repeated
        newton, linear, with --column: a column of categories with these public levels, which may be rare; rows of other
        levels add nothing
    --logistic
        the outcome is 0 or 1; coefficients are log odds ratios
    --counts
        the outcome is a count, with bounds 0,HI; coefficients are log rate ratios
    --gamma
        the outcome is a cost or another positive amount, with bounds 0,HI; coefficients are logs of mean ratios
    --method {newton,sufficient,functional}, default newton
        newton (default): the least noise, robust standard errors; sufficient: second moments, released once;
        functional: the same with Laplace noise, pure privacy
    --no-intercept
        the model goes through the origin
    --cov-type {HC,nonrobust}
        newton, linear: standard errors for residuals of any variance (default: HC), or of one variance
    --delta D, float
        of the guarantee (default: 1e-06), greater than 0; functional is pure and has none
    --weights NAME
        newton: column of weights, with --bounds 0,HI
    --offset NAME
        newton, linear or logistic: column with a known term of the linear predictor, with bounds
    --exposure NAME
        counts and gamma: column of exposures, with bounds greater than 0
    """
    unit = "the mean of its numbers, and its first level and its first outcome of 0 or 1"
    missing = ("error", "drop")
    names_columns = True

    def width(self, options: argparse.Namespace) -> int | None:
        columns = getattr(options, "column", None) or []
        if options.formula is not None or (columns and options.levels):
            return len(_model(options).x_bounds)
        # In a plan of columns their number, or their names, are an option.
        return len(columns) or None

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        model = _model(options)
        words = "--column and --outcome" if options.formula is None else "--formula, --bounds and --levels"
        text = {**model.levels, **model.factors}
        of_units = None
        if options.unit:
            # What is kept of the rows of a unit, for each column
            how = {name: "first" if name in model.levels else "mean" for name in model.columns}
            how |= dict.fromkeys(model.factors, "first")
            if options.logistic:
                how[str(options.outcome if model.formula is None else model.formula.response)] = "first"
            of_units = read_rows(table, options, how, words, text)
        if model.formula is None:
            *columns, outcome = model.columns
            columns = [*columns, *model.factors]
            if of_units is None and not model.factors:
                return table.parts(columns, outcome, words)
            frame = table.frame([*columns, outcome], words, text=text) if of_units is None else of_units
            return frame[columns], frame[outcome]
        import pandas as pd

        frame = table.frame(model.columns, words, text=model.levels) if of_units is None else of_units
        X, y = model.formula.rows(frame)
        design = pd.DataFrame(X, columns=list(model.formula.names))
        for name, _ in model.further.values():
            design[name] = frame[name].to_numpy()
        design.attrs = dict(frame.attrs)  # what a row is
        return design, y

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats import regression

        families = [name for name in _FAMILIES if getattr(options, name)]
        if len(families) > 1:
            raise refuse_both(f"--{families[0]}", f"--{families[1]}")
        method = families[0] if families else options.method
        if families and options.method != "newton":
            raise refuse_both(f"--method {options.method}", f"--{method}")
        model = _model(options, d)
        linear = {"--cov-type": options.cov_type is not None, "--factor": bool(model.factors)}
        for option, is_given in linear.items():
            if is_given and method != "newton":
                raise refuse(option, got=method, allowed="be given for linear regression by newton only")
        if options.delta is not None and method == "functional":
            raise refuse_both("--delta", "--method functional", "It is pure.")
        kinds: dict[str, Any] = {
            "newton": regression.PrivateLinearRegression,
            "logistic": regression.PrivateLogisticRegression,
            "counts": regression.PrivateCountRegression,
            "gamma": regression.PrivateGammaRegression,
            "sufficient": regression.SufficientStatisticsRegression,
            "functional": regression.FunctionalMechanismRegression,
        }
        own = given(options, "epsilon missing")
        if method != "functional":
            own["delta"] = 1e-6 if options.delta is None else options.delta
        if method == "newton":
            own |= {"factors": model.factors or None, "cov_type": options.cov_type or "HC"}
        if method != "logistic":
            own["y_bounds"] = model.y_bounds
        for option, (name, pair) in model.further.items():
            own |= {option: name, _BOUNDS_OF[option]: pair}
        return kinds[method](x_bounds=model.x_bounds, fit_intercept=model.intercept, **own)

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        together = model.f_test()
        facts = {
            "noise": model.plan_.stages[0].noise,
            "formula": options.formula,
            "outcome": options.outcome,
            "confidence_level": options.confidence,
            "params": self._params(model, options.confidence),
            "covariance": model.params_cov_.tolist(),
            "condition": model.condition_,
            **{name.rstrip("_"): getattr(model, name) for name in _FACTS.split() if hasattr(model, name)},
        }
        if hasattr(model, "levels_"):
            facts["levels"] = [{"level": level, **found} for level, found in model.levels_.items()]
        facts["terms"] = model.wald_test_terms().to_dict()["rows"]
        names = ("statistic", "pvalue", "df_num", "df_denom")
        facts["f_test"] = {name: getattr(together, name) for name in names}
        return [model.summary(options.confidence)], facts

    def _params(self, model: Any, confidence: float) -> list[dict[str, Any]]:
        """Return a record per parameter, the intercept first if there is one."""
        import numpy as np

        from dpstats.regression.base import INTERCEPT

        slopes = range(model.coef_.size)
        asked = [*([INTERCEPT] if model.fit_intercept else []), *slopes]
        rows = model.estimates(asked).to_dict(confidence)["rows"]
        first = [getattr(model, "intercept_identified_", None)] * (len(rows) - len(slopes))
        names = {"std_error": "standard_error", "statistic": "z"}
        shares = [*([model.intercept_privacy_share_] if first else []), *model.privacy_share_.tolist()]
        table = {
            **{names.get(key, key): [row[key] for row in rows] for key in rows[0]},
            "privacy_share": shares,
            # null for an intercept without this test
            "identified": [*first, *model.identified_.tolist()],
        }
        for name in ("settled", "one_sided"):
            if hasattr(model, f"{name}_"):
                table[name] = [*([None] * len(first)), *getattr(model, f"{name}_").tolist()]
        for ratio in ("odds_ratio", "rate_ratio"):
            if hasattr(model, f"{ratio}s_"):
                for end, name in (("", "estimate"), ("_low", "low"), ("_high", "high")):
                    with np.errstate(over="ignore"):
                        table[f"{ratio}{end}"] = np.exp(table[name]).tolist()
        return [dict(zip(table, record, strict=True)) for record in zip(*table.values(), strict=True)]


REGRESS = RegressCommand()
