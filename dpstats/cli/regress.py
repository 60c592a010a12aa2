"""``dpstats regress``: coefficients of a linear or generalized linear model, with intervals that count the noise."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats.cli.declared import Pair, bounds_of, by_column, levels_of
from dpstats.cli.input import InputTable
from dpstats.cli.options import add_privacy, per_column
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.units import add_unit, read_rows
from dpstats.errors import InvalidParameter, show

if TYPE_CHECKING:
    from dpstats.regression.formula import Formula


def _add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--outcome", metavar="NAME", help="column to explain by the others")
    parser.add_argument(
        "--formula",
        metavar="F",
        help="in place of --outcome and --column: 'y ~ x1 + C(plan)' (needs the extra 'formula')",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        nargs="+",
        metavar=("LO HI", "NAME=LO,HI"),
        help="public bounds, known without the data: of a column or the outcome by its name; without a name once for "
        "all other columns, or once per column in their order",
    )
    parser.add_argument(
        "--levels",
        action="append",
        metavar="NAME=A,B,...",
        help="public levels of a column of categories; coefficients compare each with the first. A missing entry of a "
        "file is the empty level",
    )
    parser.add_argument(
        "--factor",
        action="append",
        metavar="NAME=A,B,...",
        help="newton, linear, with --column: a column of categories with these public levels, which may be rare; rows "
        "of other levels add nothing",
    )
    parser.add_argument(
        "--logistic", action="store_true", help="the outcome is 0 or 1; coefficients are log odds ratios"
    )
    parser.add_argument(
        "--counts",
        action="store_true",
        help="the outcome is a count, with bounds 0,HI; coefficients are log rate ratios",
    )
    parser.add_argument(
        "--gamma",
        action="store_true",
        help="the outcome is a cost or another positive amount, with bounds 0,HI; coefficients are logs of mean ratios",
    )
    parser.add_argument(
        "--method",
        choices=["newton", "sufficient", "functional"],
        default="newton",
        help="newton (default): the least noise, robust standard errors; sufficient: second moments, released once; "
        "functional: the same with Laplace noise, pure privacy",
    )
    parser.add_argument("--no-intercept", action="store_true", help="the model goes through the origin")
    parser.add_argument(
        "--cov-type",
        choices=["HC", "nonrobust"],
        help="newton, linear: standard errors for residuals of any variance (default: HC), or of one variance",
    )
    parser.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="of the guarantee (default: 1e-06), greater than 0; functional is pure and has none",
    )
    parser.add_argument(
        "--weights",
        metavar="NAME",
        help="newton: column of weights, with --bounds 0,HI",
    )
    parser.add_argument(
        "--offset",
        metavar="NAME",
        help="newton, linear or logistic: column with a known term of the linear predictor, with bounds",
    )
    parser.add_argument(
        "--exposure", metavar="NAME", help="counts and gamma: column of exposures, with bounds greater than 0"
    )
    add_unit(parser, "the mean of its numbers, and its first level and its first outcome of 0 or 1")
    add_privacy(parser, missing=("error", "drop"))


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


def _further(options: argparse.Namespace, named: dict[str, Pair]) -> dict[str, tuple[str, Pair]]:
    """Return the names and the bounds of the columns of weights, of offsets and of exposures."""
    given = {option: getattr(options, option) for option in _BOUNDS_OF if getattr(options, option)}
    if "offset" in given and (options.counts or options.gamma):
        raise InvalidParameter("--offset cannot be used with --counts or --gamma. Give --exposure")
    if "exposure" in given and not (options.counts or options.gamma):
        raise InvalidParameter("--exposure needs --counts or --gamma. Give --offset")
    if given and options.method != "newton":
        raise InvalidParameter(
            f"--{next(iter(given))} cannot be used with --method {options.method}. Remove one of them"
        )
    for option, name in given.items():
        if name not in named:
            raise InvalidParameter(f"--bounds must include the column of --{option}: {name}=LO,HI")
        if (
            list(given.values()).count(name) > 1
            or name == options.outcome
            or name in (getattr(options, "column", None) or [])
        ):
            raise InvalidParameter(
                f"--{option} must be another column than each other option's, got {show(name)}"
            )
    return {option: (name, named[name]) for option, name in given.items()}


_BOUNDS_OF = {"weights": "weight_bounds", "offset": "offset_bounds", "exposure": "exposure_bounds"}
"""The estimator's parameter of the bounds of a further column."""


def _model(options: argparse.Namespace, d: int | None = None) -> _Model:
    """Return the model: of a formula, of named columns, or in a plan of ``d`` columns."""
    factors = levels_of(options.factor, "--factor")
    if factors and (options.formula is not None or options.levels is not None):
        raise InvalidParameter("--factor cannot be used with --formula or --levels. Remove one of them")
    if options.formula is not None:
        return _of_formula(options)
    if options.outcome is None:
        raise InvalidParameter("--outcome must be given, or --formula")
    model = _of_columns(options) if "column" in options else _of_plan(options, d or 0)
    if twice := [name for name in factors if name in (*model.columns, options.outcome)]:
        raise InvalidParameter(f"--factor must name another column than other options, got {show(twice[0])}")
    return model._replace(factors=factors)


def _of_plan(options: argparse.Namespace, d: int) -> _Model:
    if options.levels is not None:
        raise InvalidParameter("--levels need names in a plan: give --columns NAME ..., or a --formula")
    pairs, named = bounds_of(options.bounds)
    further = _further(options, named)
    named = _without(named, further)
    y_bounds = _outcome_bounds(named.pop(options.outcome, None), options.outcome, options.logistic)
    if named and len(named) != d:
        raise InvalidParameter(f"--bounds must name each of the --columns ({d}) or none, got {len(named)}")
    x_bounds = by_column([*named], pairs, named) if named else per_column("--bounds", pairs, d)
    return _Model(None, x_bounds, y_bounds, not options.no_intercept, [], {}, further, {})


def _without(named: dict[str, Pair], further: dict[str, tuple[str, Pair]]) -> dict[str, Pair]:
    gone = [name for name, _ in further.values()]
    return {name: pair for name, pair in named.items() if name not in gone}


def _of_formula(options: argparse.Namespace) -> _Model:
    for name in ("outcome", "column", "no_intercept"):
        if getattr(options, name, None):
            raise InvalidParameter(
                f"--{name.replace('_', '-')} cannot be used with --formula. Give it in the formula"
            )
    pairs, named = bounds_of(options.bounds)
    if pairs:
        raise InvalidParameter("--bounds must name their columns where there is a formula: NAME=LO,HI")
    further = _further(options, named)
    return _parsed(options.formula, named, levels_of(options.levels), options.logistic, further)


def _of_columns(options: argparse.Namespace) -> _Model:
    columns, outcome, levels = options.column or [], options.outcome, levels_of(options.levels)
    pairs, named = bounds_of(options.bounds)
    further = _further(options, named)
    named = _without(named, further)
    y_bounds = _outcome_bounds(named.pop(outcome, None), outcome, options.logistic)
    if not columns:
        raise InvalidParameter("--column must be given, once for each column, or --formula")
    if outcome in columns:
        raise InvalidParameter(f"--outcome must be another column than each --column, got {show(outcome)}")
    for option, names in (("--bounds", named), ("--levels", levels)):
        if unknown := [name for name in names if name not in columns]:
            raise InvalidParameter(
                f"{option} must name a column of --column or --outcome, got {show(unknown[0])}"
            )
    if both := [name for name in named if name in levels]:
        raise InvalidParameter(f"a column must have --bounds or --levels, not both, got {show(both[0])}")
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
        raise InvalidParameter(f"--formula must have an outcome: 'y ~ x', got {show(text)}")
    y_bounds = _outcome_bounds(formula.y_bounds, formula.response, logistic)
    others = [name for name, _ in further.values()]
    if twice := [name for name in others if name in (*formula.names, formula.response)]:
        raise InvalidParameter(f"--formula must not have the column of another option, got {show(twice[0])}")
    columns = list(dict.fromkeys([*bounds, *levels, *([formula.response] if logistic else []), *others]))
    return _Model(formula, formula.x_bounds, y_bounds, formula.has_intercept, columns, levels, further, {})


def _outcome_bounds(bounds: Any, name: str, logistic: bool) -> Any:
    if logistic and bounds is not None:
        raise InvalidParameter(f"--bounds of {show(name)} do not go with --logistic: the outcome is 0 or 1")
    if not logistic and bounds is None:
        raise InvalidParameter(f"--bounds must include the outcome: {name}=LO,HI")
    return bounds


def _width(options: argparse.Namespace) -> int | None:
    columns = getattr(options, "column", None) or []
    if options.formula is not None or (columns and options.levels):
        return len(_model(options).x_bounds)
    # In a plan of columns their number, or their names, are an option.
    return len(columns) or None


def _read(table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
    model = _model(options)
    words = "--column and --outcome" if options.formula is None else "--formula, --bounds and --levels"
    text = {**model.levels, **model.factors}
    of_units = read_rows(table, options, _kept(model, options), words, text) if options.unit else None
    if model.formula is None:
        *columns, outcome = model.columns
        if model.factors:
            columns = [*columns, *model.factors]
            frame = table.frame([*columns, outcome], words, text=text) if of_units is None else of_units
            return frame[columns], frame[outcome]
        if of_units is None:
            return table.parts(columns, outcome, words)
        return of_units[columns], of_units[outcome]
    import pandas as pd

    frame = table.frame(model.columns, words, text=model.levels) if of_units is None else of_units
    X, y = model.formula.rows(frame)
    design = pd.DataFrame(X, columns=list(model.formula.names))
    for name, _ in model.further.values():
        design[name] = frame[name].to_numpy()
    design.attrs = dict(frame.attrs)  # what a row is
    return design, y


def _kept(model: _Model, options: argparse.Namespace) -> dict[str, str]:
    """Return the rule that combines the rows of a unit, for each column."""
    how = {name: "first" if name in model.levels else "mean" for name in model.columns}
    how |= dict.fromkeys(model.factors, "first")
    if options.logistic:
        how[str(options.outcome if model.formula is None else model.formula.response)] = "first"
    return how


def _build(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats import regression

    families = [name for name in ("logistic", "counts", "gamma") if getattr(options, name)]
    if len(families) > 1:
        raise InvalidParameter(f"--{families[0]} cannot be used with --{families[1]}. Remove one of them")
    method = families[0] if families else options.method
    if families and options.method != "newton":
        raise InvalidParameter(
            f"--method {options.method} cannot be used with --{method}. Remove one of them"
        )
    if options.cov_type is not None and method != "newton":
        raise InvalidParameter(f"--cov-type goes with linear regression by newton only, got {method}")
    if options.delta is not None and method == "functional":
        raise InvalidParameter(
            "--delta cannot be used with --method functional, which is pure. Remove one of them"
        )
    kinds: dict[str, Any] = {
        "newton": regression.PrivateLinearRegression,
        "logistic": regression.PrivateLogisticRegression,
        "counts": regression.PrivateCountRegression,
        "gamma": regression.PrivateGammaRegression,
        "sufficient": regression.SufficientStatisticsRegression,
        "functional": regression.FunctionalMechanismRegression,
    }
    model = _model(options, d)
    given: dict[str, Any] = {"x_bounds": model.x_bounds, "fit_intercept": model.intercept}
    given["epsilon"], given["missing"] = options.epsilon, options.missing
    if method != "functional":
        given["delta"] = 1e-6 if options.delta is None else options.delta
    if model.factors and method != "newton":
        raise InvalidParameter(f"--factor goes with linear regression by newton only, got {method}")
    if method == "newton":
        given["factors"] = model.factors or None
        given["cov_type"] = options.cov_type or "HC"
    if method != "logistic":
        given["y_bounds"] = model.y_bounds
    for option, (name, pair) in model.further.items():
        given |= {option: name, _BOUNDS_OF[option]: pair}
    return kinds[method](**given)


# Reports


def _report(model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    summary, together = model.summary(options.confidence), model.f_test()
    names = (
        "cov_type",
        "rows_",
        "total_weight_",
        "effective_rows_",
        "scale_",
        "clipped_share_",
        "clipped_share_std_",
        "clipped_offset_share_",
        "clipped_offset_share_std_",
        "clipped_exposure_share_",
        "clipped_exposure_share_std_",
        "clipped_weight_share_",
        "clipped_weight_share_std_",
        "outcome_rate_",
        "clip_width_",
        "unsettled_",
        "separated_",
        "counts_noise_std_",
    )
    facts = {
        "noise": model.plan_.stages[0].noise,
        "formula": options.formula,
        "outcome": options.outcome,
        "confidence_level": options.confidence,
        "params": _params(model, options.confidence),
        "covariance": model.params_cov_.tolist(),
        "condition": model.condition_,
        **{name.rstrip("_"): getattr(model, name) for name in names if hasattr(model, name)},
        **({"levels": _levels(model)} if hasattr(model, "levels_") else {}),
        "terms": model.wald_test_terms().to_dict()["rows"],
        "f_test": {name: getattr(together, name) for name in ("statistic", "pvalue", "df_num", "df_denom")},
    }
    return [summary], facts


def _levels(model: Any) -> list[dict[str, Any]]:
    """Return a record per level of the factor, or per combination of levels."""
    return [{"level": level, **found} for level, found in model.levels_.items()]


def _params(model: Any, confidence: float) -> list[dict[str, Any]]:
    """Return a record per parameter, the intercept first if there is one."""
    import numpy as np

    from dpstats.regression.base import INTERCEPT

    slopes = range(model.coef_.size)
    asked = [*([INTERCEPT] if model.fit_intercept else []), *slopes]
    rows = model.estimates(asked).to_dict(confidence)["rows"]
    first = [getattr(model, "intercept_identified_", None)] * (len(rows) - len(slopes))
    names = {"std_error": "standard_error", "statistic": "z"}
    table = {
        **{names.get(key, key): [row[key] for row in rows] for key in rows[0]},
        "privacy_share": [
            *([model.intercept_privacy_share_] if first else []),
            *model.privacy_share_.tolist(),
        ],
        "identified": [
            *first,
            *model.identified_.tolist(),
        ],  # null for the intercept, which has no such test
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


REGRESS = ReleaseCommand(
    name="regress",
    help="private linear, logistic, count or gamma regression, with intervals that count the noise",
    description="Release the coefficients of a linear or generalized linear model, with standard errors and intervals "
    "that include sampling error and noise. Public: the number of rows, column names, bounds and levels. Neighbors "
    "differ in one row.",
    add_parameters=_add_parameters,
    build=_build,
    report=_report,
    read=_read,
    width=_width,
)
