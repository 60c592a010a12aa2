"""The one place where a fit plans, charges, releases and reports.

Every estimator of the package is a `PrivateEstimator`. It says what it will release (`plan`), reads the data
(`_read`), releases through a session (`_release`), and turns what was released into fitted attributes (`_report`).
The order of these, and the money, are here and nowhere else.
"""

from __future__ import annotations

import copy
from typing import Any, Generic, Self, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from dpstats.data.arithmetic import quiet
from dpstats.data.engine import Engine
from dpstats.data.foreign import in_memory
from dpstats.data.frames import label_and_columns
from dpstats.data.labels import by_name, column_names, pairs_by_name, unit_of
from dpstats.data.sources import engine_of
from dpstats.data.tables import Table, public_shape, read_table
from dpstats.privacy.budget import PrivacyBudget, check_budget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.noise import noise_source
from dpstats.release.session import Released, Session
from dpstats.release.witness import session_of
from dpstats.report import Background, Reported, told_parameters, told_value

Plan = TypeVar("Plan", bound=ReleasePlan)

Private = Any
"""What an estimator releases from, which only `_release` sees: exact integers, by the names of the stages; or, where
what a stage is about depends on earlier releases, the checked rows."""


class PrivateEstimator(Reported, BaseEstimator, Generic[Plan]):
    """Base of the estimators: parameters and public sizes -> plan -> data -> charge -> release -> report.

    Subclasses have the parameters ``epsilon``, ``delta``, ``random_state`` and ``budget`` beside their own.
    """

    epsilon: float
    delta: float
    random_state: Any
    budget: PrivacyBudget | None
    plan_: Plan
    privacy_: PrivacyGuarantee

    _min_samples = 2
    _takes_engines = False
    """Whether rows may be in a database, a file or a cluster: whether `_read` reads an `Engine`."""
    _per_column: tuple[str, ...] = ()
    """Parameters that may have an entry per column: a fit matches their labels with the names of the columns."""

    def plan(self, n_samples: int, n_features: int) -> Plan:
        """Return what a fit on data of this size would release, and at which cost; sees no data."""
        raise TypeError(f"{type(self).__name__} does not define plan")

    def _prepare(self, plan: Plan) -> Plan:
        """Return the plan with what is public and slow to compute: before the charge, so that breaking off is free."""
        return plan

    def _read(self, table: Table, plan: Plan) -> Private:
        """Return what the plan's stages are about, or refuse the data."""
        raise TypeError(f"{type(self).__name__} does not define _read")

    def _release(self, private: Private, plan: Plan, session: Session) -> None:
        """Release every stage of the plan: the only function that sees both the data and the noise."""
        for stage in plan.stages:
            session.add(stage.name, private[stage.name])

    def _report(self, released: Released, plan: Plan) -> None:
        """Set the fitted attributes: post-processing of what was released."""
        raise TypeError(f"{type(self).__name__} does not define _report")

    def _in_order(self, names: list[Any] | None) -> Self:
        """Return the estimator with its labelled parameters in the order of the columns ``names``: itself, or a copy.

        Only planning needs it: what comes after goes by the plan.
        """
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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the estimate from the rows of ``X``.

        Bad parameters and bad data raise before anything is charged; the budget, if there is one,
        is charged before any noise is drawn. A fit that fails after that has spent the charge.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private rows: a numpy array, a data frame of pandas, polars (also a lazy one) or pyarrow, or a single
            column of these; for some estimators also a DuckDB relation,
            the path of a Parquet or CSV file, or a Dask array or frame. ``n_samples``, ``n_features`` and the column
            names are public.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidParameter
            If a parameter is outside what is allowed.
        InvalidData
            If X is not a 2-d table of at least two rows of finite numbers.
        BudgetExceeded
            If the budget cannot pay.
        """
        X, y = self._named(engine_of(X, y), y)
        noise = noise_source(self.random_state)
        budget = check_budget(self.budget, simulated=noise.simulated)
        planner = self._in_order(column_names(X))
        plan, stated, unit = None, self._stated_shape(X), self._row_is(X)
        if budget is not None and stated is not None and min(stated) > 0:
            # Before the data are touched, so that a refusal depends on public facts only.
            plan = planner.plan(max(stated[0], self._min_samples), stated[1])
            budget.check(plan.for_data(unit, noise.simulated))
        with quiet():
            table = self._table(X, y)
        if plan is None or (plan.n_samples, plan.n_features) != table.shape:
            plan = planner.plan(*table.shape)
            if budget is not None:
                budget.check(plan.for_data(unit, noise.simulated))
        plan = self._prepare(plan.for_data(unit, noise.simulated))
        session = session_of(plan, noise, budget, type(self).__name__)
        guarantee = plan.guarantee
        with quiet():
            private = self._read(table, plan)
            with session:
                self._release(private, plan, session)
        self.plan_, self.privacy_ = plan, guarantee
        self._report(session.released, plan)
        return self

    def _named(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return a data frame without the column that ``y`` names, and that column; anything else as it is."""
        if not isinstance(y, str) or isinstance(X, Engine) or not get_tags(self).target_tags.required:
            return X, y
        return label_and_columns(in_memory(X), y, parameter="y")

    def _stated_shape(self, X: Any) -> tuple[int, int] | None:
        """Return the public shape of data that state one, without looking into them."""
        return public_shape(X)

    def _session(self, plan: ReleasePlan, label: str, X: Any) -> Session:
        """Return the session of a release from ``X`` beside the fit, which the budget can pay."""
        noise = noise_source(self.random_state)
        plan = plan.for_data(self._row_is(X), noise.simulated)
        session = session_of(plan, noise, self.budget, label)
        session.check()
        return session

    def _row_is(self, X: Any) -> str:
        """Return what a row of the data is, for the guarantee."""
        return unit_of(X)

    def _table(self, X: Any, y: Any) -> Table:
        """Read the data that a fit was given; an estimator of rows alone ignores ``y``."""
        return read_table(self, X, reset=True, min_samples=self._min_samples)

    def _background(self) -> Background:
        asked, defaults = told_parameters(self)
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            asked.append(("columns of the data", told_value(list(names))))
        stated = str(self.plan_)
        plan = "\n".join([stated, *(note for note in self.plan_.notes() if note not in stated)])
        return Background(self.privacy_.explain(), self.privacy_.simulated, asked, defaults, plan)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        # A fitted estimator says how its release was made; parameters that are set later do not change that.
        privacy = getattr(self, "privacy_", None)
        simulated = self.random_state is not None if privacy is None else privacy.simulated
        return f"{text} [simulated noise, not a private release]" if simulated else text
