"""A fitted estimator reports its fit: parameters that are set later change nothing that it states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.nets.cases import CASES, Given

# The first two concern the next release. The others say how rows to predict for are read.
OF_OTHER_ROWS = {"random_state", "budget", "missing", "missing_codes", "classes"}


def statements(fitted: Any) -> dict[str, Any]:
    """Return the statements of a fitted estimator about its release."""
    found = {"summary": str(fitted.summary()), "methods": fitted.methods_text(), "values": fitted.to_dict()}
    if hasattr(fitted, "estimates"):
        found["estimates"] = fitted.estimates().to_dict()
    if hasattr(fitted, "params"):
        found["parameters"] = [str(fitted.params), str(fitted.conf_int()), fitted.wald_test_terms().to_dict()]
        found["intercept"] = fitted.intercept_confidence_interval()
        found["predictions"] = fitted.get_prediction(np.eye(3)).to_dict()
    return found


@pytest.mark.parametrize("name", CASES)
def test_later_parameters_change_no_statement(name: str) -> None:
    fitted = CASES[name][0](Given())
    before = statements(fitted)
    later = dict.fromkeys(fitted.get_params(deep=False).keys() - OF_OTHER_ROWS, False)
    assert repr(statements(fitted.set_params(**later))) == repr(before)
