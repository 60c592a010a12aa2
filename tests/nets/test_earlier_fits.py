"""A fit after another one, with other options, has what a fresh estimator has: nothing of the earlier fit."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pandas as pd
import pytest

from dpstats.inference.reports import page_of
from dpstats.means import ClippedMean
from dpstats.tables import PrivateProportion
from tests.nets.cases import CASES, Given


def kinds() -> dict[type, list[str]]:
    """Return the cases of every class of estimators."""
    found = defaultdict(list)
    for name, (make, _) in CASES.items():
        found[type(fitted(make))].append(name)
    return found


def fitted(make: Any) -> Any:
    return make(Given(epsilon=2.0))


def again(make: Any, earlier: Any) -> Any:
    """Return the earlier estimator after the fit of a case, with the options of the case."""
    kind, fits = type(earlier), []
    fit = kind.fit

    def caught(self: Any, *data: Any, **named: Any) -> Any:
        fits.append((self, data, named))
        return self

    kind.fit = caught
    try:
        fitted(make)
    finally:
        kind.fit = fit
    ((fresh, data, named),) = fits
    return earlier.set_params(**fresh.get_params(deep=False)).fit(*data, **named)


def names(estimator: Any) -> set[str]:
    return {name for name in vars(estimator) if name.endswith("_")}


def test_nothing_of_an_earlier_fit_stays() -> None:
    for some in kinds().values():
        for before in some:
            for after in some:
                reused = again(CASES[after][0], fitted(CASES[before][0]))
                assert names(reused) == names(fitted(CASES[after][0])), (before, after)


def test_a_private_number_of_rows_does_not_stay() -> None:
    private = PrivateProportion(epsilon=1.0, neighbors="add_or_remove", random_state=0).fit([0, 1] * 50)
    assert hasattr(private, "n_")
    public = private.set_params(neighbors="replace_one").fit([0, 1] * 50)
    assert names(public) == names(PrivateProportion(epsilon=1.0, random_state=0).fit([0, 1] * 50))


def test_a_fit_that_fails_leaves_the_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = ClippedMean(bounds=(0, 1), random_state=0).fit([[0.5]] * 50)
    before = dict(vars(estimator))
    report = ClippedMean._report

    def fails(self: Any, released: Any, plan: Any) -> None:
        report(self, released, plan)
        self.added_ = 1 / 0

    monkeypatch.setattr(ClippedMean, "_report", fails)
    with pytest.raises(ZeroDivisionError):
        estimator.fit(pd.DataFrame({"a": [0.25] * 60, "b": [0.5] * 60}))
    assert vars(estimator).keys() == before.keys()
    assert all(vars(estimator)[name] is before[name] for name in before)


@pytest.mark.parametrize("name", CASES)
def test_a_page_has_every_note_of_its_summary(name: str) -> None:
    estimator = fitted(CASES[name][0])
    text = page_of(estimator).as_html()
    shown = " ".join(text.replace("&#x27;", "'").replace("&quot;", '"').replace("&gt;", ">").split())
    for note in estimator.summary().notes:
        assert " ".join(str(note).split())[:40] in shown
