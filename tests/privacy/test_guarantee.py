"""Guarantees and group privacy."""

import dataclasses
import math

import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import Neighbors, PrivacyGuarantee, group_privacy
from dpstats.privacy.guarantee import parse_neighbors


def test_fields_are_plain_floats_and_frozen():
    import numpy as np

    guarantee = PrivacyGuarantee(np.float64(0.5), np.float32(0.25))
    assert type(guarantee.epsilon) is float and type(guarantee.delta) is float
    assert (guarantee.epsilon, guarantee.delta) == (0.5, 0.25)
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.0


@pytest.mark.parametrize("epsilon", [-1e-9, math.inf, math.nan, "1", None, True, 1j])
def test_bad_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon must"):
        PrivacyGuarantee(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0000001, math.nan, "0"])
def test_bad_delta_is_refused(delta):
    with pytest.raises(InvalidParameter, match="delta must"):
        PrivacyGuarantee(1.0, delta)


@pytest.mark.parametrize("neighbors", ["REPLACE_ONE", None, 1])
def test_neighbors_must_be_the_enum(neighbors):
    with pytest.raises(InvalidParameter, match="neighbors must"):
        PrivacyGuarantee(1.0, neighbors=neighbors)


@pytest.mark.parametrize("relation", Neighbors)
def test_relations_are_members_or_their_words(relation: Neighbors) -> None:
    word = {Neighbors.REPLACE_ONE: "replace_one", Neighbors.ADD_OR_REMOVE_ONE: "add_or_remove"}[relation]
    assert parse_neighbors(relation) is parse_neighbors(word) is relation


@pytest.mark.parametrize("given", ["REPLACE_ONE", "", None, 1, True, [], {"replace_one": 1}, ("replace_one",)])
def test_other_words_and_things_are_no_relations(given: object) -> None:
    with pytest.raises(InvalidParameter, match="neighbors must"):
        parse_neighbors(given)


def test_text_names_the_relation_and_says_simulated():
    assert str(PrivacyGuarantee(1.0, 1e-6)) == "(epsilon = 1, delta = 1e-06), one row replaced"
    other = PrivacyGuarantee(0.5, neighbors=Neighbors.ADD_OR_REMOVE_ONE, simulated=True)
    assert str(other) == (
        "(epsilon = 0.5, delta = 0), one row added or removed [simulated noise, not a private release]"
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "power"),
    [
        # min(e^eps a + delta, 1 - e^-eps (1 - delta - a)) at a = 0.05 (Wasserman and Zhou 2010; Kairouz et al.):
        (0.0, 0.0, "5.0%"),  # nothing is learnt
        (1.0, 0.0, "13.6%"),  # .05 e = .13591
        (1.0, 0.1, "23.6%"),  # .13591 + .1
        (4.0, 0.0, "98.3%"),  # the second bound: 1 - .95 e^-4 = .98260, below .05 e^4 = 2.7
        (1.0, 1.0, "100.0%"),
    ],
)
def test_explain_states_the_power_bound(epsilon, delta, power):
    assert f"has power at most {power}" in PrivacyGuarantee(epsilon, delta).explain()


def test_the_power_bound_is_attained_by_randomized_response():
    # Report one bit truthfully with probability p = e/(1 + e). The best level-0.05 test of bit 0 against
    # bit 1 rejects on a report 1 with probability q = .05/(1 - p): power p q = .05 e.
    p = math.e / (1 + math.e)
    assert p * 0.05 / (1 - p) == pytest.approx(0.05 * math.e, rel=1e-12)
    assert f"{100 * p * 0.05 / (1 - p):.1f}%" in PrivacyGuarantee(1.0).explain()


def test_explain_claims_a_factor_on_the_odds_for_pure_privacy_only():
    pure, approximate = PrivacyGuarantee(1.0), PrivacyGuarantee(1.0, 1e-6)
    assert "odds" in pure.explain() and "by a factor of at most 2.72." in pure.explain()  # e = 2.718
    assert "odds" not in approximate.explain()
    assert "plus 1e-06" in approximate.explain()


def test_explain_speaks_of_the_relation_and_of_simulation():
    one = PrivacyGuarantee(1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE, simulated=True).explain()
    assert "that a row was in the data" in one
    assert one.endswith("this is not a private release.")
    assert "in the data" not in PrivacyGuarantee(1.0).explain()
    assert "not a private release" not in PrivacyGuarantee(1.0).explain()


def test_a_guarantee_says_what_a_row_is():
    person = PrivacyGuarantee(1.0, 1e-6, unit="person")
    assert str(person) == "(epsilon = 1, delta = 1e-06), one person replaced"
    assert "if that person had held another value" in person.explain() and "one person replaced" in person._repr_html_()
    assert "that a person had one value" in PrivacyGuarantee(1.0, unit="person").explain()
    added = PrivacyGuarantee(1.0, 0.0, Neighbors.ADD_OR_REMOVE_ONE, unit="person")
    assert "one person added or removed" in str(added) and added.as_replace_one().unit == "person"
    # A label: what is promised is the same number.
    assert person == PrivacyGuarantee(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="unit must"):
        PrivacyGuarantee(1.0, unit="")


def test_group_privacy_reference_value():
    # delta (e^{k eps} - 1)/(e^eps - 1) = 1e-6 * .6487212707/.1051709181 = 6.168257e-6
    group = group_privacy(PrivacyGuarantee(0.1, 1e-6), 5)
    assert group.epsilon == pytest.approx(0.5, rel=1e-15)
    assert group.delta == pytest.approx(6.168257e-6, rel=1e-7)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_group_privacy_is_the_chain_of_its_steps(size):
    # P_0(S) <= e^eps P_1(S) + delta, applied size times: delta_total = delta (1 + e^eps + ... + e^{(k-1) eps}).
    guarantee = PrivacyGuarantee(0.3, 1e-4)
    expected = 1e-4 * math.fsum(math.exp(0.3 * step) for step in range(size))
    group = group_privacy(guarantee, size)
    assert group.delta == pytest.approx(expected, rel=1e-12)
    assert group.epsilon == pytest.approx(0.3 * size, rel=1e-15)


def test_group_privacy_limits():
    assert group_privacy(PrivacyGuarantee(0.5), 4) == PrivacyGuarantee(2.0)
    assert group_privacy(PrivacyGuarantee(0.0, 0.1), 4).delta == pytest.approx(0.4, rel=1e-15)  # total variation
    assert group_privacy(PrivacyGuarantee(1.0, 0.1), 50).delta == 1.0
    assert group_privacy(PrivacyGuarantee(10.0, 0.1), 100).delta == 1.0  # e^1000 overflows a double
    one = PrivacyGuarantee(1.0, 0.1, Neighbors.ADD_OR_REMOVE_ONE, simulated=True)
    assert group_privacy(one, 1) == one


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_group_privacy_refuses_bad_sizes(size):
    with pytest.raises(InvalidParameter, match="size must"):
        group_privacy(PrivacyGuarantee(1.0), size)
