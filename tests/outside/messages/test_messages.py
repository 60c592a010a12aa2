"""The net of messages: a share of all slots, rows and commands by the seed of the day, and planted faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats import errors
from dpstats.data import parameters
from dpstats.means import ClippedMean
from dpstats.privacy import plan as tradeoff
from dpstats.quantiles import PrivateQuantile, quantile
from dpstats.release import estimator
from tests.outside.messages.examples import Script, public_slots, scripts
from tests.outside.messages.net import Count, Net, work_folder
from tests.outside.messages.rows import fit_rows, run_commands
from tests.outside.seeds import daily_seed, replay

SEED = daily_seed()


def check(count: Count) -> None:
    """Fail with the seed if an entry was shown."""
    shown = "\n".join(count.leaks[:20])
    assert not count.leaks, f"{replay(SEED)}: {len(count.leaks)} leaks\n{shown}"
    assert count.tried, "nothing was tried"


def test_no_slot_shows_an_entry() -> None:
    check(Net(SEED, 1, time.monotonic() + 5).walk())


def test_no_fit_keeps_an_odd_row() -> None:
    check(fit_rows(SEED, time.monotonic() + 10, most=12))


def test_no_command_shows_a_file() -> None:
    check(run_commands(SEED, time.monotonic() + 8, share=0.1))


def test_examples_reach_slots() -> None:
    # A public name without an example is not in the net.
    assert len(scripts()) > 250 and len(set(public_slots())) > 1500


ENTRIES = [48271.390625, 59341.453125, 61234.703125, 70123.546875]


@pytest.mark.parametrize(
    "call",
    [
        lambda entries: PrivateQuantile(entries, bounds=entries).fit(np.arange(50.0)),
        lambda entries: ClippedMean(bounds=entries).fit(np.arange(50.0)),
        lambda entries: ClippedMean(bounds=(0, 1), epsilon=entries).fit(np.arange(50.0)),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_a_column_in_a_wrong_slot_is_described(call: Callable[[Any], Any], kind: Callable[[Any], Any]) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        call(kind(ENTRIES))
    error = caught.value
    assert error.given in ("a list of 4", "a tuple of 4", "an array of 4", "a Series of 4")
    assert error.parameter in ("q", "bounds", "epsilon") and error.allowed
    assert "48271" not in str(error) + repr(vars(error)) and error.__context__ is None


def test_a_repr_describes_containers() -> None:
    text = repr(ClippedMean(bounds=pd.Series(ENTRIES), clip=(0, 1)))
    assert text == "ClippedMean(bounds=<a Series of 4>, clip=(0, 1))"


# Faults, planted: the net must notice each.


def planted(source: str, each: int = 3) -> Count:
    """Return what the net finds in an example."""
    net = Net(SEED, each, time.monotonic() + 60)
    with work_folder() as net.folder:
        net.run(Script("planted", (source,)))
    return net.count


MEAN = "import numpy as np\nfrom dpstats.means import ClippedMean\n"
FIT = MEAN + "ClippedMean(bounds=(0, 1), random_state=0).fit(np.linspace(0, 1, 50))"


def test_a_rendering_that_shows_entries_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not planted(FIT).leaks
    monkeypatch.setattr(errors, "show", repr)  # refuse() renders with it
    assert len(planted(FIT).leaks) > 5


def test_a_repr_that_shows_entries_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "_hide_entries", lambda made: made)
    assert any("repr of ClippedMean" in leak for leak in planted(FIT).leaks)


def test_an_entry_in_a_context_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(make: Callable[[], Any], *failures: type[Exception]) -> Any:
        try:
            return make()
        except failures:
            raise errors.InvalidParameter("type_one_error must be numbers") from None

    monkeypatch.setattr(tradeoff, "attempt", attempt)
    source = "from dpstats.privacy import PrivacyGuarantee, tradeoff_curve\ntradeoff_curve(PrivacyGuarantee(1.0), 0.05)"
    assert any("could not convert" in leak for leak in planted(source, each=9).leaks)


def test_an_entry_of_a_container_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_real(name: str, value: Any, *, of: Any = ..., **limits: Any) -> float:
        return parameters.check_real(name, value, **limits)

    monkeypatch.setattr(quantile, "check_real", check_real)
    source = "from dpstats.quantiles import PrivateQuantile\nPrivateQuantile(0.5, bounds=(0, 1)).plan(100)"
    assert planted(source, each=9).leaks
