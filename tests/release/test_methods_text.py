"""The paragraph on methods: exact noise and simulated noise, intervals or none, units, and bad calls."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.quantiles import PrivateQuantile
from dpstats.release.receipts import find_assumptions, write_methods
from tests.nets.calls import ESTIMATORS, fitted

X = np.linspace(0.0, 1.0, 50)


def test_exact_noise_is_named_and_simulated_noise_is_never_called_private() -> None:
    exact = ClippedMean(bounds=(0, 1)).fit(X[:, None]).methods_text()
    assert "Exact noise was drawn" in exact and "simulated" not in exact
    seeded = ClippedMean(bounds=(0, 1), random_state=0).fit(X[:, None]).methods_text()
    assert "not a private release" in seeded and "Exact noise" not in seeded


def test_a_joint_step_is_one_step_with_its_parts() -> None:
    text = ClippedMean(bounds=(0, 1), random_state=0).fit(X[:, None]).methods_text()
    assert "clipped moments, together (clipped mean: 1 number, Laplace noise of scale" in text
    assert "Its parameters were bounds = (0, 1)." in text


def test_without_intervals_none_are_claimed() -> None:
    quantile = PrivateQuantile(bounds=(0, 1), confidence_level=None, random_state=0).fit(X)
    assert "intervals" not in quantile.methods_text()


def test_the_number_of_rows_is_public_only_if_neighbors_have_the_same() -> None:
    plan = ClippedMean(bounds=(0, 1)).plan(50, 1)
    for neighbors, public in ((Neighbors.REPLACE_ONE, True), (Neighbors.ADD_OR_REMOVE_ONE, False)):
        text = write_methods("Mean", plan, PrivacyGuarantee(1.0, neighbors=neighbors, unit="person"), [], None, None)
        assert f"The number of people{', 50, is public' if public else ' is private'}." in text
        assert "Its parameters" not in text


def test_the_author_adds_sources_and_the_total() -> None:
    budget = PrivacyBudget(2.0)
    fit = ClippedMean(bounds=(0, 1), random_state=0).fit(X[:, None])
    assert fit.methods_text().endswith("The guarantee is of this release alone.")
    text = fit.methods_text(sources="the protocol", total=budget)
    assert "such as bounds, are from the protocol." in text
    assert text.endswith("together satisfy differential privacy with (epsilon = 0, delta = 0), one row replaced.")
    for wrong in ({"sources": 3}, {"sources": " "}, {"total": 1.0}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            fit.methods_text(**wrong)


def test_a_methods_section_needs_a_fit() -> None:
    with pytest.raises(NotFittedError):
        ClippedMean(bounds=(0, 1)).methods_text()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_assumption_of_the_summary_is_in_the_text_for_a_paper(name: str) -> None:
    model = fitted(name)
    text = model.methods_text()
    notes = [note for note in model.summary().notes if "assum" in note and "assume=" not in note]
    assert all(any(part in text for part in note.split(". ") if "assum" in part) for note in notes)
    for sentence in find_assumptions(notes):
        assert sentence in text
    # It stands alone in a paper, and so has no pronoun for what the summary named before.
    assert not [one for one in find_assumptions(notes) if one.startswith(("They ", "It ", "These "))]


def test_doubts_of_the_summary_are_in_the_text_for_a_paper() -> None:
    fit = PrivateQuantile(0.5, bounds=(0, 50), random_state=0).fit(np.arange(500) % 5)
    assert any("may cover far less" in note for note in fit.summary().notes)
    assert "may cover far less" in fit.methods_text()


def test_normal_rows_are_an_assumption_that_a_paper_states() -> None:
    fit = PrivateVariance(bounds=(0, 1), interval="normal", random_state=0).fit(X[:, None])
    assert "assume that the clipped rows are normal" in fit.methods_text()
