"""Commands about models: ``dpstats regress``, ``conformal``, ``statistic`` and ``identity-test``."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dpstats.cli.options import (
    PRIVATE,
    Pair,
    add_options,
    bounds_of,
    by_column,
    check_ends,
    check_one,
    given,
    levels_of,
    per_column,
    refuse_both,
    split_list,
)
from dpstats.cli.output import shows_progress
from dpstats.cli.release import PowerTarget, ReleaseCommand
from dpstats.cli.tables import InputTable, read_rows, reading
from dpstats.errors import InvalidParameter, refuse, show

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpstats.regression.formula import Formula


# Regressions

_BOUNDS_OF = {"weights": "weight_bounds", "offset": "offset_bounds", "exposure": "exposure_bounds"}
"""The estimator's parameter of the bounds of a further column."""
_FAMILIES = ("logistic", "counts", "gamma")
_FACTS = (
    "cov_type rows_ total_weight_ effective_rows_ scale_ clipped_share_ clipped_share_std_ clipped_offset_share_ "
    "clipped_offset_share_std_ clipped_exposure_share_ clipped_exposure_share_std_ clipped_weight_share_ "
    "clipped_weight_share_std_ outcome_rate_ clip_width_ unsettled_ separated_ counts_noise_std_ x_bounds_ y_bounds_ "
    "beyond_bounds_ beyond_bounds_std_"
)
"""Attributes of a fit that the JSON output contains, if the fit has them."""


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
    pairs, named = bounds_of(options.bounds, private=True)
    pairs += [PRIVATE] * options.private_bounds
    if options.formula is not None:
        for name in ("outcome", "column", "no_intercept"):
            if getattr(options, name, None):
                remedy = "Give it in the formula."
                raise refuse(f"--{name.replace('_', '-')}", allowed="not be given with --formula", remedy=remedy)
        if pairs:
            raise refuse("--bounds", allowed="name their columns where there is a formula: NAME=LO,HI or NAME=private")
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
        if named.get(name, PRIVATE) == PRIVATE:
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
    """Return the model of named columns, or of a formula if there are levels."""
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
        raise refuse("--bounds", allowed=f"not have the outcome ({show(name)}) with --logistic", remedy=remedy)
    if not logistic and bounds is None:
        raise refuse("--bounds", allowed=f"have the outcome: {name}=LO,HI")
    return bounds


class RegressCommand(ReleaseCommand):
    """Regressions."""

    name = "regress"
    help = "private linear, logistic, count or gamma regression, with intervals that include the noise"
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
        columns, or once per column in their order. NAME=private chooses them from the rows: newton, for a fifth of
        epsilon; not for the outcome of --counts and --gamma
    --private-bounds
        choose the bounds of all other columns from the rows; --bounds private is the same
    --levels NAME=A,B,..., repeated
        public levels of a column of categories; coefficients compare each with the first. A missing entry of a file is
        the empty level
    --unknown {drop,error}, default drop
        what a row outside the --levels does: it is left out, and the fit counts the others (default), or the file is
        refused
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
            # Summary of the rows of a unit, for each column
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

        from dpstats.data.rows import NO_CODES

        frame = table.frame(model.columns, words, text=model.levels) if of_units is None else of_units
        X, y = model.formula.rows(frame, NO_CODES, options.missing == "drop", options.unknown == "drop", fit=True)
        design = pd.DataFrame(X, columns=list(model.formula.names))
        for name, _ in model.further.values():
            design[name] = frame[name].to_numpy()
        design.attrs = dict(frame.attrs)  # what a row is
        return design, y

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats import regression, textbook
        from dpstats.mechanisms.unknown_bounds import wants_bounds

        families = [name for name in _FAMILIES if getattr(options, name)]
        if len(families) > 1:
            raise refuse_both(f"--{families[0]}", f"--{families[1]}")
        method = families[0] if families else options.method
        if families and options.method != "newton":
            raise refuse_both(f"--method {options.method}", f"--{method}")
        model = _model(options, d)
        of_outcome = wants_bounds(model.y_bounds)
        if options.method != "newton" and (of_outcome or wants_bounds(model.x_bounds)):
            raise refuse_both(f"--bounds {PRIVATE}", f"--method {options.method}")
        if of_outcome and method != "newton":
            raise refuse("--bounds", got=PRIVATE, allowed=f"have LO,HI of the outcome with --{method}")
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
            "functional": textbook.FunctionalMechanismRegression,
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
        made = kinds[method](x_bounds=model.x_bounds, fit_intercept=model.intercept, **own)
        if model.formula is not None:
            made.leave_out_levels(model.formula, options.unknown)
        return made

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
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
        (found,) = model.f_test().to_dict()["rows"]
        facts["f_test"] = {name: found[name] for name in ("statistic", "pvalue", "df_num", "df_denom")}
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
                        table[f"{ratio}{end}"] = [
                            None if number is None else float(np.exp(number)) for number in table[name]
                        ]
        return [dict(zip(table, record, strict=True)) for record in zip(*table.values(), strict=True)]


# Statistics


class StatisticCommand(ReleaseCommand):
    """The values of a Python function on blocks of rows."""

    name = "statistic"
    help = "a private interval for what a Python function computes"
    description = (
        "Call a Python function on secret blocks of rows and release the mean of its values, with an interval. The "
        "function must depend on the rows of its block alone. The number of rows, the names of columns, the function "
        "and its bounds are public."
    )
    parameters = """
    --function MODULE:NAME, required
        a Python function in an importable module, or in MODULE.py of the current folder; it takes a data frame of a
        block of rows, and returns a number (or --outputs numbers) that depends on this block alone
    --outcome NAME
        column that the function is given as its second argument
    --bounds LO HI, float
        public bounds of the values of blocks, on the scale of --link; wide ones cost little (default: -100 100)
    --outputs K, int, default 1
        how many numbers it returns
    --blocks B, int
        number of blocks (default: by the rows)
    --parameters P, int, default 1
        how many parameters the function estimates
    --skewness S, float, default 8
        largest skewness that intervals count (default: 8)
    --remainder R, float, default 0.35
        largest bias of a block of m rows that intervals count, in its standard deviations times 1/m (default: 0.35)
    --bias {jackknife,jackknife2,none}, default jackknife
        correction of the values of blocks (default: jackknife)
    --resolution R, float
        what values are whole multiples of, as shares are
    --link {fisher,logit,log}
        scale of the values: fisher for correlations
    --unit NAME
        the column that says whose row it is: a unit's rows stay together, and the guarantee is for the unit
    --missing {error,drop}, default error
        rows with a missing entry: refuse them (default), or leave them out of their block
    --time-limit SECONDS, float
        CPU time of a block at most
    --jobs N, int, default 1
        processes (default: 1)
    """
    delta = 0.0
    all_columns = True

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        super().add_parameters(parser)
        parser.set_defaults(bounds=[-100.0, 100.0])

    def _function(self, words: str) -> Callable[..., Any]:
        """Return the function that ``--function`` names."""
        module, _, name = words.partition(":")
        if not module or not name:
            raise refuse("--function", given=words, allowed="MODULE:NAME")
        if "" not in sys.path:
            sys.path.insert(0, "")  # the current folder, as for `python -m`
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:  # any error of the user's module
            raise InvalidParameter(
                f"--function: the module {show(module)} cannot be imported: {type(error).__name__}: {error}"
            ) from None
        for part in name.split("."):
            found = getattr(found, part, None)
        if not callable(found):
            raise refuse("--function", given=name, allowed=f"name a function of the module {show(module)}")
        function: Callable[..., Any] = found
        return function

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        self._function(options.function)
        beside = {"--outcome": options.outcome, "--unit": options.unit}
        named = {option: name for option, name in beside.items() if name is not None}
        if named and options.column is None:
            raise refuse("--column", allowed=f"be given beside {' and '.join(named)}")
        columns = None if options.column is None else [*options.column, *named.values()]
        if columns is not None and len(set(columns)) < len(columns):
            raise refuse("--column, --outcome and --unit", allowed="name different columns")
        frame = table.frame(columns, "--column", text=[] if options.unit is None else [options.unit])
        return (frame,) if options.outcome is None else (frame, options.outcome)

    def width(self, options: argparse.Namespace) -> int | None:
        return 1

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.statistic import PrivateStatistic

        check_ends(*options.bounds)
        names = "parameters skewness remainder resolution link unit missing time_limit epsilon delta"
        return PrivateStatistic(
            self._function(options.function),
            bounds=tuple(options.bounds),
            blocks="auto" if options.blocks is None else options.blocks,
            bias=None if options.bias == "none" else options.bias,
            **given(options, names, n_outputs="outputs", n_jobs="jobs"),
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        facts = {
            "function": options.function,
            "confidence_level": options.confidence,
            "estimand": model.confidence_interval(options.confidence).estimand,
            "estimates": model.estimates().to_dict(options.confidence)["rows"],
            "blocks": model.n_blocks_,
            "rows_of_a_block": model.block_size_,
            "failed_share": model.failed_share_,
        }
        return [model.summary(options.confidence)], facts


# Identity tests


def automatic(n: int, d: int, options: argparse.Namespace) -> str:
    """Return the test that --test auto selects."""
    from dpstats.identity import RowDistanceTest
    from dpstats.identity.by_row_distance import automatic_test

    # Only the row distance takes --rho, so its size alone decides.
    epsilon = math.inf if options.rho is not None else 1.0 if options.epsilon is None else options.epsilon
    return "row-distance" if automatic_test(n, d, epsilon) is RowDistanceTest else "spatial-sign"


class IdentityTestCommand(ReleaseCommand):
    """Tests of a public mean."""

    name = "identity-test"
    help = "private test of whether the mean of the rows is a public one"
    description = (
        "Test privately whether the rows are normal with a public mean and covariance (by default the identity), or "
        "the columns independent signs. Pure privacy, but for filtering; the critical value is simulated, from public "
        "numbers only."
    )
    mean = """
    --mean M ..., float, extended, required
        mean under the null hypothesis: one number, or one per column
    """
    spread = """
    --cov FILE, path
        public covariance matrix: a CSV file of numbers, no header
    --std S ..., float, extended
        public standard deviations of independent columns: one number, or one per column
    """
    parameters = """
    --null {normal,product}, default normal
        normal rows (default), or independent entries of -1 and 1 (0 counts as -1) with this mean
    --level A, float, default 0.05
        of the test (default: 0.05)
    --test {row-distance,spatial-sign,lipschitz,filtering,auto}, default auto
        auto (default): row-distance for 8 columns or more if its calibration takes minutes at most, and otherwise
        spatial-sign
    --delta DELTA, float
        of filtering (default: 1e-06); the others are pure
    --rho RHO, float
        row-distance, for budgets kept in zero-concentrated privacy: Gaussian noise of this cost, in place of --epsilon
    """
    unit = "the mean of its entries"
    missing = ("error", "drop", "center")
    intervals = False
    target = PowerTarget(automatic)

    def add_parameters(self, parser: argparse.ArgumentParser) -> None:
        add_options(parser, self.mean)
        add_options(parser.add_mutually_exclusive_group(), self.spread)
        super().add_parameters(parser)
        parser.set_defaults(epsilon=None)  # 1, where --rho does not take its place

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest

        tests: dict[str, Any] = {
            "row-distance": RowDistanceTest,
            "spatial-sign": SpatialSignTest,
            "lipschitz": LipschitzExtensionTest,
            "filtering": FilteringTest,
        }
        if options.delta is not None and options.test != "filtering":
            raise refuse("--delta", got=f"--test {options.test}", allowed="be given with --test filtering only")
        if options.null == "product" and (options.std is not None or options.cov is not None):
            remedy = "Signs have variance 1 - mean^2."
            raise refuse("--std and --cov", allowed="be given with --null normal only", remedy=remedy)
        own: dict[str, Any] = {} if options.delta is None else {"delta": options.delta}
        test = tests[automatic(n, d, options) if options.test == "auto" else options.test]
        if options.rho is not None:
            if test is not RowDistanceTest:
                allowed = "be given with --test row-distance only"
                raise refuse("--rho", got=f"--test {options.test}", allowed=allowed)
            if options.epsilon is not None:
                raise refuse_both("--rho", "--epsilon", "Each is the privacy cost: remove one of them.")
            own["rho"] = options.rho
        return test(
            mean=per_column("--mean", options.mean, d),
            cov=self._covariance(options, d),
            epsilon=1.0 if options.epsilon is None and options.rho is None else options.epsilon,
            progress=shows_progress(options),
            **given(options, "null level missing"),
            **own,
        )

    def _covariance(self, options: argparse.Namespace, d: int) -> Any:
        """Return the public covariance of an identity test: None, variances or a matrix."""
        import numpy as np

        from dpstats.data.parameters import check_columns

        if options.std is not None:
            std = check_columns("--std", per_column("--std", options.std, d), d, above=0)
            return np.broadcast_to(std, (d,)) ** 2
        if options.cov is None:
            return None
        refusal = f"--cov must be a CSV file of numbers without a header, got {options.cov}"
        with reading(options.cov, refusal, InvalidParameter), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty file, which is refused below
            matrix = np.loadtxt(options.cov, delimiter=",", ndmin=2)
        if matrix.size == 0:
            raise InvalidParameter(f"{refusal}: the file is empty")
        if matrix.shape != (d, d):
            got = f"{matrix.shape[0]} of {matrix.shape[1]}"
            raise refuse("--cov", got=got, allowed=f"hold {d} lines of {d} numbers, one per column")
        return matrix

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        result = model.result_
        names = (
            *("test", "null", "statistic", "threshold", "pvalue", "level", "reject", "n_calibration"),
            *("level_range", "attainable_power"),
        )
        return [result.summary()], {name: getattr(result, name) for name in names}


# Predictions


@dataclass(frozen=True)
class PredictionColumns:
    """A fitted model whose predictions are columns of the table.

    Attributes
    ----------
    places : tuple of int
        The columns of X: one prediction, or the probability of each class.
    classes_ : tuple of str
    """

    places: tuple[int, ...]
    classes_: tuple[str, ...] = ()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predictions."""
        import numpy as np

        return np.asarray(X, dtype=np.float64)[:, self.places[0]]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        import numpy as np

        return np.asarray(X, dtype=np.float64)[:, list(self.places)]


class ConformalCommand(ReleaseCommand):
    """Intervals, or sets of classes, around predictions that are columns of the table."""

    name = "conformal"
    help = "private intervals, or sets of classes, around a model's predictions"
    description = (
        "Release the half-width of intervals around predictions, which cover new outcomes with probability 1 - alpha, "
        "or the score of sets of classes. --column names the outcome. The model was fitted on other rows. The number "
        "of rows and column names are public."
    )
    kinds = """
    --prediction NAME
        column of predictions
    --classes A,B,...
        the classes of the outcome, which are public; one with a comma stands in double quotes
    """
    parameters = """
    --training {public,private,unprotected}, required
        how the model was fitted: on public rows, by a private release, or on sensitive rows without protection
    """
    parameters += """
    --upper NAME
        column of predicted upper limits; --prediction is then one of lower limits
    --scale NAME
        column of positive predicted scales, which widths are proportional to
    --probabilities A,B,...
        with --classes: the column of the probability of each, in their order
    """
    parameters += """
    --score-bounds S, float
        public bound of the half-width; the half-width is at most this, or infinite
    --y-bounds LO HI, float
        public bounds of the outcome, which intervals are cut to
    --alpha A, float, default 0.1
        probability that an interval misses (default: 0.1)
    """
    parameters += """
    --points N, int
        number of public points that the half-width is chosen among (default: by the rows)
    """
    parameters += """
    --groups A,B,...
        public labels of groups; each has coverage
    --by NAME
        with --groups: the column that has the labels
    """
    names_columns = True
    intervals = False

    def _columns(self, options: argparse.Namespace) -> list[str]:
        """Return the columns that the model's predictions are in, or refuse options that do not fit together."""
        if options.classes is None:
            if options.probabilities is not None:
                raise refuse_both("--probabilities", "--prediction")
            if options.score_bounds is None:
                raise refuse("--score-bounds", allowed="be given with --prediction")
            named = [options.prediction, options.upper, options.scale]
            names = [str(name) for name in named if name is not None]
        else:
            for name in ("upper", "scale", "score_bounds", "y_bounds"):
                if getattr(options, name) is not None:
                    raise refuse_both(f"--{name.replace('_', '-')}", "--classes")
            names, classes = split_list(options.probabilities or ""), split_list(options.classes)
            if len(names) != len(classes):
                raise refuse(
                    "--probabilities", got=f"{len(names)} columns", allowed=f"one for each of {len(classes)} classes"
                )
        if (options.by is None) != (options.groups is None):
            raise refuse("--by", allowed="be given with --groups, and with it only")
        return names

    def read(self, table: InputTable, options: argparse.Namespace) -> tuple[Any, ...]:
        outcome, names = check_one(options), self._columns(options)
        beside = [] if options.by is None else [str(options.by)]
        wanted = [*names, *beside, outcome]
        if len(set(wanted)) < len(wanted):
            raise refuse("--column", allowed="name another column than --by and the columns of predictions")
        text = beside if options.classes is None else [*beside, outcome]
        frame = table.frame(wanted, "--column, --by and the columns of predictions", text=text)
        return frame[[*names, *beside]], frame[outcome]

    def width(self, options: argparse.Namespace) -> int | None:
        return len(self._columns(options))

    def build(self, options: argparse.Namespace, n: int, d: int) -> Any:
        from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor

        names = self._columns(options)
        shared = given(options, "alpha training by epsilon", n_points="points")
        shared["groups"] = None if options.groups is None else split_list(options.groups)
        if options.classes is not None:
            model = PredictionColumns(tuple(range(len(names))), tuple(split_list(options.classes)))
            return PrivateConformalClassifier(model, **shared)
        models = [PredictionColumns((place,)) for place in range(len(names))]
        return PrivateConformalRegressor(
            models[0],
            upper_estimator=None if options.upper is None else models[1],
            scale_estimator=None if options.scale is None else models[-1],
            **given(options, "score_bounds y_bounds"),
            **shared,
        )

    def report(self, model: Any, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
        facts = {"scores": model.to_dict()["rows"], "coverage_bound": model.coverage_bound_}
        return [model.summary()], facts
