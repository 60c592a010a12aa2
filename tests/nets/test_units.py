"""Every number of a fit has a unit: a change of units multiplies it by a product of powers of the conversion factors.

The factors are powers of two, so floating point rounds equally in both units. The noise is then the same, and each
number is multiplied by a power of two. A sum of terms with different units is not.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.nets.cases import CASES, Given, fit
from tests.nets.numbers import Numbers, report

OTHER = Given(columns=np.array([2.0**3, 2.0**-5, 2.0**9]), outcome=2.0**12)


def powers(one: Numbers, other: Numbers) -> Numbers:
    """Return the logarithms, base 2, of the ratios of two arrays; NaN if both numbers are 0, or neither is finite."""
    with np.errstate(all="ignore"):
        found = np.log2(other / one)
    return np.where((one == 0) & (other == 0) | ~np.isfinite(one) & ~np.isfinite(other), np.nan, found)


@pytest.mark.parametrize("name", CASES)
def test_every_number_has_a_unit(name: str) -> None:
    make, asked = CASES[name]
    one, other = fit(name), report(make(OTHER), asked)
    assert one.keys() == other.keys()
    found = {place: powers(one[place], other[place]) for place in one}
    for place, power in found.items():
        known = power[~np.isnan(power)]
        assert np.allclose(known, np.round(known), rtol=0, atol=1e-7), (place, one[place], other[place])
    # Limits and errors have the units of their estimates.
    if "estimates.estimate" in found:
        for place, power in found.items():
            if place.startswith(("interval", "estimates.")):
                differ = np.abs(power.ravel() - found["estimates.estimate"].ravel())
                assert np.all(np.isnan(differ) | (differ < 1e-7)), place
