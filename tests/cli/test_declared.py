"""What options declare of columns: names before the sign, numbers and words behind it, and nothing half understood."""

from __future__ import annotations

import pytest

from dpstats.cli.options import bounds_of, by_column, levels_of
from dpstats.errors import InvalidParameter


def test_bounds_with_and_without_names() -> None:
    assert bounds_of(None) == ([], {})
    assert bounds_of([["-4", "4"], ["y=0,5", "a=b=-1,1e3", "0", "1"]]) == (
        [(-4.0, 4.0), (0.0, 1.0)],
        {"y": (0.0, 5.0), "a=b": (-1.0, 1000.0)},
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1"], "--bounds must be LO HI or NAME=LO,HI, got '1'"),
        (["low", "high"], "--bounds must be LO HI or NAME=LO,HI, got 'low high'"),
        (["y=1"], "--bounds must be LO HI or NAME=LO,HI, got '1'"),
        (["y=1,2,3"], "--bounds must be LO HI or NAME=LO,HI, got '1 2 3'"),
        (["y=0,1", "y=0,2"], "--bounds must name each column once, got 'y' twice"),
        (["y=0,1", "y=0,1"], "--bounds must name each column once, got 'y' twice"),
        (["y=5,0"], "--bounds must be two numbers LO < HI, got 5 0"),
        (["y=0,inf"], "--bounds must have a finite sum and difference, got 0 inf"),
        (["y=nan,1"], "--bounds must be two numbers LO < HI, got nan 1"),
    ],
)
def test_bounds_that_are_none(words: list[str], message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        bounds_of([words])
    assert str(caught.value) == message


def test_levels() -> None:
    assert levels_of(None) == {}
    found = levels_of(["plan=a,b,c", 'town="Ely, Cambs",York,', "size=S=1,L=2"])
    assert found == {"plan": ["a", "b", "c"], "town": ["Ely, Cambs", "York", ""], "size": ["S=1", "L=2"]}


@pytest.mark.parametrize("text", ["plan", "plan=a", "plan=", "plan=a,b,a"])
def test_levels_that_are_none(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"--levels must be NAME=A,B,\.\.\. of two different levels"):
        levels_of([text])


def test_levels_of_one_column_are_given_once() -> None:
    with pytest.raises(InvalidParameter, match="--levels must name each column once, got 'plan' twice"):
        levels_of(["plan=a,b", "plan=c,d"])


def test_bounds_by_column() -> None:
    one, two, three = (0.0, 1.0), (0.0, 2.0), (0.0, 3.0)
    assert by_column(["a", "b"], [one], {}) == one
    assert by_column(["a", "b"], [one, two], {}) == [one, two]
    assert by_column(["a", "b", "c"], [one], {"b": two}) == [one, two, one]
    assert by_column(["a", "b", "c"], [one, three], {"b": two}) == [one, two, three]
    assert by_column(["b", "a"], [], {"a": one, "b": two}) == [two, one]


@pytest.mark.parametrize(
    ("pairs", "named", "message"),
    [
        ([], {"a": (0.0, 1.0)}, "--bounds must be given for every column .*, got none for 'b'"),
        ([(0.0, 1.0)], {"a": (0.0, 1.0), "b": (0.0, 1.0)}, "bounds must have a name"),
        ([(0.0, 1.0)] * 3, {}, r"--bounds must be given once, or once per column \(2\), got 3 times"),
        ([(0.0, 1.0)] * 2, {"a": (0.0, 1.0)}, r"or once per column \(1\), got 2 times"),
    ],
)
def test_bounds_that_leave_a_column_out(pairs: list, named: dict, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        by_column(["a", "b"], pairs, named)


def test_categories_are_levels_or_discovered() -> None:
    assert levels_of(None, discover=True) == {}
    given = ["v.a=x,y", "v.b=discover", "v.c=discover,y", "v.d=a=b,c"]
    assert levels_of(given, discover=True) == {
        "v.a": ["x", "y"],
        "v.b": "discover",
        "v.c": ["discover", "y"],
        "v.d": ["a=b", "c"],
    }
    for twice in (["v.a=discover", "v.a=x,y"], ["v.a=discover", "v.a=discover"]):
        with pytest.raises(InvalidParameter, match=r"--levels must name each column once, got 'v\.a' twice"):
            levels_of(twice, discover=True)
    with pytest.raises(InvalidParameter, match="of two different levels or more, got 'v=discovery'"):
        levels_of(["v=discovery"], discover=True)
