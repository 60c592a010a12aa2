"""The one place where a fit opens the data, plans, charges, releases and reports.

Every estimator of the package is a `PrivateEstimator`. It states its columns (`_schema`) and its release
(`plan`), reads the rows (`_read`), releases through a session (`_release`), and sets the fitted attributes
(`_report`). Their order, and the charge, are defined here only.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Self, TypeVar, dataclass_transform

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import open_source, stated_shape
from dpstats.data.parameters import by_name, check_missing, check_real, pairs_by_name, unit_of
from dpstats.data.rows import LEFT_OUT, Rows, check_codes
from dpstats.data.schema import Column, Schema, Source, check_columns_again, check_names, record_columns
from dpstats.data.values import quiet
from dpstats.errors import InvalidData, InvalidParameter, is_public, refuse, refuse_data, show, state_charges
from dpstats.inference.reports import Background, Records, Reported, told_parameters, told_value
from dpstats.inference.results import ConfidenceInterval, Summary, about_missing, observed_rows, with_missing
from dpstats.lattice.rounding import name_columns
from dpstats.privacy.budget import PrivacyBudget, add_request, check_budget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.ledger import carry
from dpstats.privacy.plan import Counted, ReleasePlan
from dpstats.privacy.stages import Selection
from dpstats.release.additive import (
    ROWS,
    HiddenSize,
    ReleasedSize,
    check_container,
    has_private_size,
    plan_count,
    release_count,
    sample_complete,
    smaller_noise,
    usable_rows,
)
from dpstats.release.mechanism import order_rows, session_of
from dpstats.release.noise import Noise, noise_source
from dpstats.release.receipts import Receipt, make_receipt, write_methods
from dpstats.release.session import Released, Session

Estimator = TypeVar("Estimator")

_FIRST = (
    # estimands and tested values
    *("function", "n_outputs", "q", "n_components", "n_nonzero", "mean", "cov", "null", "n_queries", "queries"),
    *("workload", "distribution", "args"),
    # public knowledge of the data
    *("domain", "levels", "classes", "groups", "sizes", "by", "columns", "time", "event", "horizon", "edges"),
    *("x_bounds", "y_bounds", "bounds", "bounds_are", "step", "bins", "clip", "clip_norm", "center", "bound", "std"),
    *("std_bound", "weights", "weight_bounds", "offset", "offset_bounds", "exposure", "exposure_bounds", "factors"),
)
_LAST = ("missing", "missing_codes", "unknown", "neighbors", "epsilon", "delta", "random_state", "budget")


def place_of(name: str) -> int:
    """Return the place of a parameter: the estimand, public knowledge, options, missing entries, privacy, noise.

    Examples
    --------
    >>> from dpstats.release.estimator import place_of
    >>> sorted(["budget", "epsilon", "calibration", "missing", "bounds", "q"], key=place_of)
    ['q', 'bounds', 'calibration', 'missing', 'epsilon', 'budget']
    """
    if name in _FIRST:
        return _FIRST.index(name)
    return len(_FIRST) + (1 + _LAST.index(name) if name in _LAST else 0)


def fitted(*, init: Literal[False] = False) -> Any:
    """Declare an attribute of an estimator that a fit sets, unlike a parameter."""
    return field(init=init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field, fitted))
def parameters(cls: type[Estimator]) -> type[Estimator]:
    """Give an estimator the keyword-only ``__init__`` of its annotated attributes and its bases' attributes.

    A base declares what its estimators share and an estimator its own, each with its default; the constructor
    assigns them and does nothing else, as scikit-learn wants. Its signature has them in the order of `place_of`.
    Attributes of a fit are declared as `fitted`, and others as ``ClassVar``, or in a base without this decorator.

    >>> from sklearn.base import BaseEstimator
    >>> @parameters
    ... class Shared(BaseEstimator):
    ...     epsilon: float = 1.0
    >>> @parameters
    ... class Own(Shared):
    ...     clip: float = 2.0
    ...     mean_: float = fitted()
    >>> Own(clip=3.0), inspect.signature(Own)
    (Own(clip=3.0), <Signature (*, clip: 'float' = 2.0, epsilon: 'float' = 1.0) -> None>)
    """
    # Compared by identity and printed by scikit-learn, as estimators are.
    made = dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    construct: Callable[..., None] = vars(made)["__init__"]
    stated = inspect.signature(construct)
    # A stable sort: "self" and parameters without a keyword stand before, and options as they are declared.
    ordered = sorted(
        stated.parameters.values(),
        key=lambda one: (one.kind, place_of(one.name) if one.kind is one.KEYWORD_ONLY else 0),
    )
    construct.__signature__ = stated.replace(parameters=ordered)  # type: ignore[attr-defined]
    return made


# Estimators


Plan = TypeVar("Plan", bound=ReleasePlan)

Private = Any
"""Private input that only `_release` sees: exact integers by the names of the stages.

If a stage depends on earlier
releases, it is the checked rows."""


_FOUND = "_found_by_fit"
"""The attribute with the names of those that a fit has set."""


@contextlib.contextmanager
def _renew(estimator: Any) -> Iterator[None]:
    """Take away the attributes that an earlier fit has set. If the new fit fails, restore the estimator as it was."""
    state = vars(estimator)
    before = dict(state)
    for name in state.pop(_FOUND, ()):
        state.pop(name, None)
    given = set(state)
    try:
        yield
    except BaseException:
        state.clear()
        state.update(before)
        raise
    state[_FOUND] = sorted(name for name in state.keys() - given if name.endswith("_"))


class _Words(str):
    """A description in place of a value, printed without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self}>"


def _hide_entries(estimator: Any) -> Any:
    """Return a copy to be printed, which names parameters that may hold entries by type and size."""
    shown = {}
    for name, value in estimator.get_params(deep=False).items():
        ours = type(value).__module__.startswith(("dpstats.", "numpy.random"))
        shown[name] = value if ours or is_public(value) else _Words(show(value))
    # Only get_params differs, because fitted attributes are computed from the parameters.
    printed = copy.copy(estimator)
    vars(printed)["get_params"] = lambda deep=True: shown
    return printed


def _released_facts(estimator: Any) -> dict[str, Any]:
    """Return the released numbers of a fit, by name."""
    found = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, float | np.ndarray | np.generic)}


class PrivateEstimator(Reported, BaseEstimator, Generic[Plan]):
    """Base of the estimators: open -> plan -> check the budget -> read -> charge -> release -> report.

    Subclasses have the parameters ``epsilon``, ``delta``, ``random_state`` and ``budget``, and others.
    """

    epsilon: float
    delta: float
    random_state: Any
    budget: PrivacyBudget | None
    plan_: Plan
    privacy_: PrivacyGuarantee
    rows_: float
    rows_noise_std_: float
    n_rows_: int
    n_: float
    n_noise_std_: float
    _released_size: ReleasedSize | HiddenSize
    _parameters: tuple[list[tuple[str, str]], str]
    """The parameters of the fit, as `told_parameters` describes them."""

    _min_samples = 2
    _noise_is_chosen = False
    """Whether ``delta`` alone decides between Laplace and Gaussian noise, because an earlier plan has compared them."""
    _one_column = False
    """Whether X is a single column: a 1-d array, or a table with one column."""
    _per_column: tuple[str, ...] = ()
    """Parameters that may have an entry per column. A fit matches their labels with the names of the columns.
    """

    def plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the release plan of a fit on data of this size. It sees no data."""
        raise TypeError(f"{type(self).__name__} does not define plan")

    def _schema(self) -> Schema:
        """Return the columns that the estimator takes, from its parameters alone."""
        bounds = [value for name in self._per_column if isinstance(value := getattr(self, name), Mapping)]
        labeled = bounds[0] if bounds and self._per_column[0].endswith("bounds") else None
        return Schema(missing=getattr(self, "missing", "error"), bounds=labeled)

    def _prepare(self, plan: Plan) -> Plan:
        """Return the plan with slow public computations done: before the charge, so that an interrupt is free."""
        return plan

    def _read(self, rows: Rows, plan: Plan) -> Private:
        """Return the exact integers of the plan's stages, or refuse the data."""
        raise TypeError(f"{type(self).__name__} does not define _read")

    def _list_slots(self, d: int) -> dict[str, int]:
        """Return the parameters that may be bounds="private", with the number of columns that each bounds."""
        return {"bounds": d}

    def _list_columns(self, rows: Any) -> dict[str, Any]:
        """Return the private columns that these parameters bound."""
        return {"bounds": rows.X}

    def _release(self, private: Private, plan: Plan, session: Session) -> None:
        """Release every stage of the plan: the only function that sees both the data and the noise."""
        for stage in plan.stages:
            draw = session.select if isinstance(stage, Selection) else session.add
            draw(stage.name, private[stage.name])

    def _report(self, released: Released, plan: Plan) -> None:
        """Set the fitted attributes by post-processing the released values."""
        raise TypeError(f"{type(self).__name__} does not define _report")

    def _policy(self, *others: str) -> str:
        """Return the treatment of missing entries, "error", "drop" or one of ``others``, and check their codes."""
        check_codes(getattr(self, "missing_codes", None))
        return check_missing(getattr(self, "missing", "error"), ["error", "drop", *others])

    def _smaller_noise(self, make_plan: Callable[[float], Plan], delta: float, noise: Callable[[Plan], Any]) -> Plan:
        """Return the plan with the smaller noise of an estimate: see `smaller_noise`."""
        return make_plan(delta) if self._noise_is_chosen else smaller_noise(make_plan, delta, noise, self.budget)

    def _check_before_count(self, rows: Rows) -> None:
        """Refuse rows that a count of complete rows would leave out, although they shall be refused."""

    def _fill(self, d: int) -> Any:
        """Return a public row that a sample of complete rows is filled with, if too few rows are complete."""
        return 0.0

    def _sort_parameters(self, names: list[Any] | None) -> Self:
        """Return the estimator with its labeled parameters in the order of the columns ``names``: itself, or a copy."""
        # Only planning needs it: later steps use the plan.
        given = {name: getattr(self, name) for name in self._per_column}
        ordered = {
            name: (pairs_by_name if name.endswith("bounds") else by_name)(name, value, names)
            for name, value in given.items()
        }
        if all(ordered[name] is value for name, value in given.items()):
            return self
        planner = copy.copy(self)
        planner.__dict__.update(ordered)
        return planner

    @state_charges
    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the estimate from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged; the budget, if there is one,
        is charged before any noise is drawn. A fit that fails after that raises `ChargedError`, which states the
        charge and has the released values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or container of rows
            Private rows: an array, a list of rows, or a data frame of pandas, polars (also lazy) or pyarrow.
            Also a DuckDB relation, the path of a Parquet or CSV file, a Dask array or frame, or a Spark data
            frame. One column may be 1-d. The number of rows and column names are public. Labeled bounds
            choose columns by name.
        y : sequence of length n_samples, or column name, optional
            Private: the outcome, label or unit of each row, for estimators that need one; others ignore it.
            In a database, a file or a cluster it is the name of a column of X.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter has a value that is not allowed.
        InvalidData
            If X cannot be read as the estimator needs it, finite numbers say, or ``y`` has another length.
        BudgetExceeded
            If the budget cannot pay.
        ChargedError
            If the fit failed after its charge.
        """
        noise = noise_source(self.random_state)
        budget = check_budget(self.budget, simulated=noise.simulated)
        parameters = told_parameters(self)
        source = open_source(X)
        schema, given = source.resolve(_coded_schema(self), y)
        if has_private_size(self):
            schema = check_container(X, schema)
        names = source.names if schema.numbers is None else list(schema.numbers)
        check_names(names)
        planner = self._sort_parameters(names)
        budget = add_request(budget, self, columns=_asked_columns(source, schema, names, y))
        unit = self._row_is(source.unit)
        plan = _affordable(planner, source, schema, budget, unit, noise.simulated)
        with quiet():
            rows = source.read(schema, given)
        n, d = _planned_size(self, *rows.shape)
        _check_count(self, n)
        if plan is None or (plan.n_planned, plan.n_features) != (n, schema.width(d)):
            plan = planner.plan(n, schema.width(d))
            if budget is not None:
                budget.check(plan.for_data(unit, noise.simulated))
        plan, reader, label = plan.for_data(unit, noise.simulated), self, type(self).__name__
        counted = plan.counted
        if counted is not None:
            complete, reader, plan, rows = _count_and_sample(self, planner, plan, rows, noise, budget)
            plan = plan.for_data(unit, noise.simulated)
        plan = reader._prepare(plan)
        if plan.located is not None:
            reader = plan.located.plan.reader(planner if counted is None else reader)
        stated = plan if counted is None else plan.follow(counted)
        session = session_of(plan.together, noise, budget, label)
        guarantee = stated.guarantee
        with _renew(self):
            with quiet():
                # An answer that was kept needs neither the rows nor noise.
                private = None if session.is_answered() else read_rows(reader, rows, plan, names)
                record_columns(self, names, schema.width(d))
                with session:
                    if not session.is_answered():
                        reader._release(private, plan, session)
            released = session.released
            if plan.located is not None:
                stated = reader.settle(released, plan)
                reader.record(self, released, plan)
                released = {stage.name: released[stage.name] for stage in stated.stages}
            self.plan_, self.privacy_ = stated, guarantee
            self._parameters = parameters
            if counted is not None:
                self.rows_, self.rows_noise_std_ = complete, float(np.max(counted.plan.noise(ROWS).std))
                self.n_rows_ = plan.n_samples
            with quiet():  # after the charge, the error settings of a caller must not cost the result
                self._report(released, stated)
        return self

    def _row_is(self, unit: str) -> str:
        """Return the unit of the guarantee; ``unit`` is the unit that the container states."""
        return unit

    def _session(self, plan: ReleasePlan, label: str, X: Any) -> Session:
        """Return the session of a second release, from ``X``, which the budget can pay."""
        noise = noise_source(self.random_state)
        plan = plan.for_data(self._row_is(unit_of(X)), noise.simulated)
        budget = add_request(check_budget(self.budget, simulated=noise.simulated), self, fit=_released_facts(self))
        session = session_of(plan, noise, budget, label)
        session.check()
        return session

    def n_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return an interval for the number of rows that count in these data.

        Parameters
        ----------
        confidence_level : float, default=0.95

        Raises
        ------
        InvalidParameter
            If the number of rows is public, because ``neighbors`` is not "add_or_remove". Also if it is not released,
            as with "discover".
        """
        check_is_fitted(self)
        if not has_private_size(self):
            raise refuse(
                "neighbors",
                given="replace_one",
                allowed="'add_or_remove' for n_interval",
                remedy="The number of rows is public: plan_.n_samples.",
            )
        return self._released_size.interval(confidence_level)

    def methods_text(self, *, sources: str | None = None, total: Any = None) -> str:
        """Return a paragraph on methods for a paper, from the public facts of the fit.

        The paragraph states the version, the parameters, the guarantee, the release and the estimand. It contains no
        estimate. State the source of the parameters and the guarantee of all releases, which only you know.

        Parameters
        ----------
        sources : str, optional
            Where bounds and other parameters that describe the data come from, such as "the protocol".
        total : PrivacyGuarantee or PrivacyBudget, optional
            Guarantee of all releases from these data, or the budget that all of them were charged to. Default: the
            text says that the guarantee is of this release alone.

        Returns
        -------
        str
            Sentences on one line.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.tables import PrivateProportion
        >>> fit = PrivateProportion(epsilon=0.5, random_state=0).fit(np.arange(100) < 30)
        >>> print(fit.methods_text())
        We used PrivateProportion of dpstats ...
        """
        check_is_fitted(self)
        estimand, null = self._conclusions()
        parameters, _ = self._parameters
        summary = self.summary()
        assumed = [f"{name} {text}." for name, text in summary.facts if name.endswith(("assume", "assumes"))]
        notes = [*summary.notes, *assumed]
        if sources is not None and not (isinstance(sources, str) and sources.strip()):
            raise refuse("sources", given=sources, allowed="text, such as 'the protocol'")
        total = total.spent if isinstance(total, PrivacyBudget) else total
        if total is not None and not isinstance(total, PrivacyGuarantee):
            raise refuse("total", given=total, allowed="a PrivacyGuarantee or a PrivacyBudget")
        name = type(self).__name__
        words = None if total is None else str(replace(total, simulated=False))
        return write_methods(
            name, self.plan_, self.privacy_, parameters, estimand, null, notes, sources=sources, total=words
        )

    def receipt(self, key: bytes | str | None = None) -> Receipt:
        """Return a receipt of the fit, which `dpstats.release.receipts.verify_receipt` checks without the data.

        It states the plan, the privacy cost, the released numbers, the versions and the hashes of the proof
        pages.

        Parameters
        ----------
        key : bytes or str, optional
            Secret key of a signature, at least 16 bytes. The signature proves that a holder of the key made
            the receipt. It does not show that the data or the declared bounds were right.

        Returns
        -------
        Receipt
            ``to_json()`` is the text of its file.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.tables import PrivateProportion
        >>> fit = PrivateProportion(epsilon=0.5, random_state=0).fit(np.arange(100) < 30)
        >>> fit.receipt().content["guarantee"]["epsilon"]
        0.5
        """
        check_is_fitted(self)
        # An estimator without other numbers has the records of its plan.
        numbers = None if type(self)._records is PrivateEstimator._records else self.to_dict()
        return make_receipt(type(self), self.plan_, self.privacy_, numbers, key)

    def summary(self) -> Summary:
        """Return a table of the released stages; prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        facts = [("Estimator", type(self).__name__), *privacy_facts(self)]
        return replace(self.plan_.summary(), title="Release", facts=facts)

    def _records(self) -> Records:
        check_is_fitted(self)
        return self.plan_._records()

    def _column_names(self, columns: Iterable[int] | None = None) -> list[str]:
        """Return the names of columns of the data, all by default, or x0, x1, ... if they have none."""
        names = getattr(self, "feature_names_in_", None)
        places = range(self.plan_.n_features) if columns is None else columns
        return [f"x{j}" if names is None else str(names[j]) for j in places]

    def _public_facts(self, *more: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the facts of a summary: the estimator, the number of rows, further ones, and the privacy."""
        plan = self.plan_
        rows = self._released_size.words if plan.has_private_size else f"{plan.n_samples:,} (public)"
        return [("Estimator", type(self).__name__), ("Rows", rows), *more, *privacy_facts(self)]

    def _table_facts(self) -> list[tuple[str, str]]:
        """Return the facts of a summary: the estimator, the sizes of the data, and the privacy."""
        plan = self.plan_
        if plan.has_private_size:
            rows = [("Rows", self._released_size.words), ("Columns", f"{plan.n_features:,} (public)")]
        else:
            rows = [("Rows, columns", f"{plan.n_given:,}, {plan.n_features:,} (public)")]
            if plan.counted is not None:
                complete = observed_rows(self.rows_, self.rows_noise_std_)
                rows.append(("Complete rows", f"{complete}; the estimate uses {self.n_rows_:,} of them"))
        return [("Estimator", type(self).__name__), *rows, *privacy_facts(self)]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"budget": carry(self.budget, fitted="plan_" in state)}

    # A copy in this process shares the budget. Both would otherwise ask for the state of a pickle.
    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "missing", "error") != "error"
        if self._one_column:
            tags.input_tags.two_d_array, tags.input_tags.one_d_array = False, True
        return tags

    def _conclusions(self) -> tuple[str | None, str | None]:
        """Return the estimand of the intervals, and the null hypothesis of the test, of those that the fit has."""
        estimates = self.estimates() if hasattr(self, "estimates") else None
        covered = estimates.estimand if estimates is not None and estimates.distribution.known else None
        return covered, getattr(getattr(self, "result_", None), "null", None)

    def _background(self) -> Background:
        asked, defaults = list(self._parameters[0]), self._parameters[1]
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            asked.append(("columns of the data", told_value(list(names))))
        stated = str(self.plan_)
        plan = "\n".join([stated, *(note for note in self.plan_.notes() if note not in stated)])
        return Background(self.privacy_.explain(), self.privacy_.simulated, asked, defaults, plan)

    def _repr_html_(self) -> str | None:
        # A method that returns None has no HTML: so scikit-learn's option display="text" says.
        if get_config()["display"] != "diagram":
            return None
        box: str = estimator_html_repr(_hide_entries(self))
        try:
            return f"{box}{self.summary()._repr_html_()}"
        except NotFittedError:
            return box

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        page = self._repr_html_()
        return {"text/plain": repr(self)} | ({} if page is None else {"text/html": page})

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super(PrivateEstimator, _hide_entries(self)).__repr__(N_CHAR_MAX)
        # A fitted estimator says how its release was made; parameters that are set later do not change that.
        privacy = getattr(self, "privacy_", None)
        simulated = self.random_state is not None if privacy is None else privacy.simulated
        return f"{text} [simulated noise, not a private release]" if simulated else text


def _asked_columns(source: Source, schema: Schema, names: list[Any] | None, y: Any) -> list[Any]:
    """Return the public names in a fit: of its columns, its outcome and other columns, and its formula."""
    called = getattr(y, "name", None)
    beside = [part.name for part in schema.beside]
    return [names, beside, called if isinstance(called, str) else None, source.about]


def _coded_schema(estimator: PrivateEstimator[Any]) -> Schema:
    """Return the schema with the declared codes of missing entries."""
    return replace(estimator._schema(), codes=check_codes(getattr(estimator, "missing_codes", None)))


def read_rows(reader: PrivateEstimator[Any], rows: Rows, plan: Any, names: list[Any] | None) -> Any:
    """Return the exact integers of a plan's stages. An error about missing entries names their columns."""
    try:
        return reader._read(rows, plan)
    except InvalidData as error:
        refusal = error
    raise name_columns(refusal, rows, names)


def _affordable(
    estimator: PrivateEstimator[Any],
    source: Source,
    schema: Schema,
    budget: PrivacyBudget | None,
    unit: str,
    simulated: bool,
) -> Any:
    """Return the plan for the size that the container states, which the budget can pay; None without a size."""
    # No entry has been looked at, so that a refusal depends on public facts only.
    if budget is None:
        return None
    stated = source.size(schema)
    size = None if stated is None else _planned_size(estimator, *stated)
    if size is None or size[1] < 1 or size[0] == 0:
        budget.check_left()
        return None
    _check_count(estimator, size[0])
    plan = estimator.plan(size[0], schema.width(size[1]))
    budget.check(plan.for_data(unit, simulated))
    return plan


def _planned_size(estimator: PrivateEstimator[Any], n: int, d: int) -> tuple[Any, int]:
    """Return the size that a fit is planned for. The number of rows is None if it is private."""
    return (None if has_private_size(estimator) else n), d


def _check_count(estimator: PrivateEstimator[Any], n: int | None) -> None:
    """Refuse too few rows."""
    if n is not None and n < estimator._min_samples:
        least = "one row" if estimator._min_samples == 1 else f"{estimator._min_samples} rows"
        raise refuse_data("X", got=f"n_samples = {n} (n is public and fixed)", allowed=f"have at least {least}")


def plan_on_sample(estimator: PrivateEstimator[Plan], n: int, d: int) -> Plan:
    """Return the plan of a release from a part of the rows, where n is public: a count, then a random sample."""
    # The size of the sample is the size that follows if all rows are complete and the count has no noise.
    counting = plan_count(n, d, check_real("epsilon", estimator.epsilon, above=0))
    size = usable_rows(counting, float(n))
    left_out = tuple(_list_exclusions(estimator))
    if size < estimator._min_samples:
        scale = float(np.max(counting.noise(ROWS).scale))
        options = " and ".join(f"{name}='drop'" for name in left_out)
        raise InvalidParameter(
            f"A count of rows, for {options}, needs more rows, or a larger epsilon. At epsilon = "
            f"{estimator.epsilon:g} and n_samples = {n} the number of complete rows has noise of scale {scale:.3g}, "
            f"which leaves {size} rows"
        )
    epsilon = estimator.epsilon - counting.target.epsilon
    alone: Plan = _on_sample(estimator, epsilon).plan(size, d)
    return alone.follow(Counted(counting, alone.target, left_out))


def _list_exclusions(estimator: PrivateEstimator[Any]) -> Iterator[str]:
    """Return the parameters that leave rows out, so that a release counts the others."""
    if estimator._policy() == "drop":
        yield "missing"
    # A row has a label only if groups are declared.
    if getattr(estimator, "groups", None) is not None and getattr(estimator, "unknown", "error") == "drop":
        yield "unknown"


def _on_sample(estimator: PrivateEstimator[Any], epsilon: float) -> Any:
    """Return a copy that releases from complete rows with a part of epsilon."""
    made = copy.copy(estimator)
    made.__dict__.update(epsilon=epsilon, missing="error", unknown="error")
    return made


def _count_and_sample(
    estimator: PrivateEstimator[Any],
    planner: PrivateEstimator[Any],
    plan: Any,
    rows: Rows,
    noise: Noise,
    budget: PrivacyBudget | None,
) -> tuple[float, Any, Any, Rows]:
    """Release the count of complete rows, and return it, with the reader, the plan and the rows of a random sample."""
    counted, label = plan.counted, type(estimator).__name__
    if budget is not None:
        budget.check_adaptive("a count of the rows that are used, which gives the size of a sample")
    with quiet():
        estimator._check_before_count(rows)
    session_of(plan, noise, budget, label).check()  # the whole plan, before its count is charged
    session = session_of(counted.plan, noise, budget, f"{label}: {ROWS}")
    with quiet():
        complete = release_count(rows, session)
        size = _usable(estimator, counted, complete)
        reader = _on_sample(planner, planner.epsilon - counted.plan.target.epsilon)
        # The charged noise does not depend on the sample's size.
        reader.__dict__.update(delta=counted.target.delta, _noise_is_chosen=True)
        found = _plan_sample(reader, size, plan.n_samples, counted.plan.n_features)
        orders = order_rows(noise, [counted.plan.n_samples, found.n_samples])
        sample = sample_complete(rows.whole(), orders, planner._fill(rows.shape[1]))
    return complete, reader, replace(found, delta_asked=plan.delta_asked), sample


def _usable(estimator: PrivateEstimator[Any], counted: Counted, rows: float) -> int:
    """Return the public size of a sample of the complete rows, or refuse a sample that is too small."""
    size = usable_rows(counted.plan, rows)
    if size < estimator._min_samples:
        remedy = "Use a larger epsilon"
        if "missing" in counted.left_out:
            remedy += ", or columns with fewer missing entries"
        if "unknown" in counted.left_out:
            remedy += f". {LEFT_OUT} Check the spelling of groups"
        raise InvalidData(
            f"X must have more complete rows: their noisy number is {rows:.0f}, with noise of standard deviation "
            f"{float(np.max(counted.plan.noise(ROWS).std)):.1f}, and {size} rows can be used. {remedy}."
        )
    return size


def _plan_sample(estimator: PrivateEstimator[Any], size: int, planned: int, d: int) -> Any:
    """Return the plan of a sample after its count. If its size cannot be planned, it has the planned size."""
    # The planned size could be planned before the charge, and noise can make the sample larger.
    try:
        return estimator.plan(size, d)
    except InvalidParameter:
        if size <= planned:
            raise
    return estimator.plan(planned, d)


def read_again(estimator: PrivateEstimator[Any], X: Any, extra_columns: tuple[Column, ...] = ()) -> Rows:
    """Return more rows with the columns of the fit, to predict for, or refuse them."""
    source = open_source(X)
    schema = replace(_coded_schema(estimator), beside=extra_columns)
    known = getattr(estimator, "feature_names_in_", None)
    if schema.bounds is not None and known is not None and set(known) <= set(source.names or ()):
        # Labeled bounds choose columns by name, in the order of the fit.
        schema = replace(schema, numbers=tuple(known))
    schema = schema.resolve(source.names)
    rows = source.read(schema)
    names = source.names if schema.numbers is None else list(schema.numbers)
    check_columns_again(estimator, names, rows.shape[1], stated_shape(X))
    return rows


def privacy_facts(fit: PrivateEstimator[Any]) -> list[tuple[str, str]]:
    """Return the facts of a summary on the guarantee, and on bounds that the fit chose."""
    located = fit.plan_.located
    chosen = [] if located is None else located.plan.reader(fit).facts(fit)
    return [*fit.privacy_.facts(), *fit.plan_.cautions, *chosen]


def state_missing(plan: ReleasePlan, estimand: str) -> str:
    """Return an estimand, and that incomplete rows are left out if they are."""
    drops = plan.counted is not None and "missing" in plan.counted.left_out
    return with_missing(estimand, about_missing("drop")) if drops else estimand
