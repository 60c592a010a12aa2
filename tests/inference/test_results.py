"""Results: frozen, unpackable, readable as text and as HTML."""

import dataclasses
import html.parser
import inspect

import numpy as np
import pytest

from dpstats.inference.results import ConfidenceInterval, Summary, about_missing, list_some, significant, with_missing


def test_an_interval_unpacks_and_indexes_as_scipys():
    interval = ConfidenceInterval(1.0, 2.0)
    low, high = interval
    assert (low, high) == (1.0, 2.0) == (interval[0], interval[1]) == (interval.low, interval.high)
    assert len(interval) == 2 and interval[-1] == 2.0
    with pytest.raises(IndexError):
        interval[2]


def test_an_interval_around_a_number_and_around_an_array():
    one = ConfidenceInterval.around(5, 2, 0.9, "the mean")
    assert type(one.low) is float and (one.low, one.high) == (3.0, 7.0)
    assert (one.confidence_level, one.estimand, one.simultaneous) == (0.9, "the mean", False)
    several = ConfidenceInterval.around([1, 2], np.array([0.5, 1.0]), 0.95, "means", True)
    np.testing.assert_array_equal(several.low, [0.5, 1.0])
    np.testing.assert_array_equal(several.high, [1.5, 3.0])
    assert several.simultaneous
    assert ConfidenceInterval.around(5, 2, 0.9, "the mean", True).simultaneous
    zero_d = ConfidenceInterval.around(np.array(5.0), 2.0, 0.9, "")
    assert type(zero_d.high) is float


def test_an_interval_is_frozen():
    interval = ConfidenceInterval(1.0, 2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        interval.low = 0.0
    with pytest.raises((AttributeError, TypeError)):
        interval.other = 0.0  # slotted
    assert repr(interval).startswith("ConfidenceInterval(low=1.0, high=2.0, confidence_level=0.95")


SUMMARY = Summary(
    "Private mean",
    [("Rows", "1,000"), ("Privacy", "(epsilon = 1, delta = 0)")],
    ("", "estimate", "low"),
    [("age", "41.2", "40.9"), ("<b>income & co</b>", "1", "-2")],
    ["A note that is long enough to be wrapped over more than one line of the table, whatever its width is."],
)


def test_a_latex_table_has_a_column_for_each_entry_of_a_row():
    lines = SUMMARY.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}"
    assert {line.count(" & ") for line in lines if line.endswith(r"\\")} == {2}


def test_text_is_aligned():
    lines = SUMMARY.as_text().splitlines()
    assert lines[0].strip() == "Private mean"
    assert set(lines[1]) == {"="}
    width = len(lines[1])
    assert all(len(line) <= max(width, 60) for line in lines)
    assert lines[2] == "Rows:    1,000"
    assert lines[3] == "Privacy: (epsilon = 1, delta = 0)"
    header, age, income = lines[5], lines[7], lines[8]
    # numbers end below their header, decimal points below each other
    assert header.index("estimate") + len("estimate") == age.index("41.2") + 4 == income.index(" 1") + 4
    assert header.index("low") + len("low") == age.index("40.9") + 4 == income.index("-2") + 4
    assert lines[10].startswith("[1] A note") and lines[11].startswith("    ")
    assert str(SUMMARY) == repr(SUMMARY) == SUMMARY.as_text()


def test_facts_of_several_sentences_are_wrapped_below_their_value():
    one, several = "word " * 30 + "end", "One sentence. " * 12 + "End."
    lines = Summary("T", [("Short", one), ("Long", several)], ("", "x"), []).as_text().splitlines()
    assert lines[2] == f"Short: {one}"
    paragraph = lines[3:5]
    assert paragraph[0].startswith("Long:  One") and paragraph[1].startswith("       ") and len(lines[1]) == 110
    assert all(len(line) <= 110 for line in paragraph)
    assert " ".join(" ".join(paragraph).split()) == f"Long: {several}"


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("error", "the mean"),
        ("center", "the mean. Missing entries count as the center of the bounds."),
        ("drop", "the mean. Rows with a missing entry are left out."),
    ],
)
def test_an_estimand_says_what_missing_entries_count_as(missing, words):
    found = with_missing("the mean", about_missing(missing))
    assert found.startswith(words)
    assert (found == words) == (missing == "error")


def test_text_without_rows_or_notes_or_facts():
    lines = Summary("T", [], ("", "x"), []).as_text().splitlines()
    # An empty name and two spaces before the header: three characters wide, the title in the middle.
    assert lines == [" T", "===", "---", "  x", "---", "==="]


class _Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.opened, self.stack, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_well_formed_escaped_and_self_contained():
    fragment = SUMMARY._repr_html_()
    assert fragment == SUMMARY.as_html()
    tags = _Tags()
    tags.feed(fragment)
    assert tags.stack == []
    assert "b" not in tags.opened and "script" not in tags.opened
    assert "<b>income & co</b>" in tags.text  # as text, not as markup
    assert "src=" not in fragment and "href=" not in fragment
    assert tags.opened.count("tr") == 2 + 1 + 2 and tags.opened.count("li") == 1


def test_a_summary_without_notes_has_no_list():
    assert "<ol>" not in dataclasses.replace(SUMMARY, notes=()).as_html()


@pytest.mark.parametrize(
    ("value", "reference", "text"),
    [
        (3.14159, None, "3.1"),  # two digits of itself
        (3.14159, 0.01, "3.142"),  # two digits of the error: 0.010
        (1234567.8, 100.0, "1,234,568"),
        (0.000123, None, "0.00012"),
        (-2.5, 0.1, "-2.50"),
        (0.0, None, "0"),
        (0.0, 1.0, "0.0"),
        (1e-20, None, "1e-20"),
        (1e16, None, "1e+16"),
        (float("nan"), None, "–"),
        (float("inf"), 1.0, "inf"),
        (2.0, 0.0, "2"),
        (2.0, float("inf"), "2"),
    ],
)
def test_significant_digits(value, reference, text):
    assert significant(value, reference) == text


def test_a_list_says_how_many_names_it_leaves_out() -> None:
    names = ["a", "b", "c", "d", "e"]
    texts = [list_some(names, most) for most in (6, 5, 4, 3)]
    assert texts == ["a, b, c, d, e", "a, b, c, d, e", "a, b, c, d and 1 more", "a, b, c and 2 more"]


def test_every_result_prints_its_table() -> None:
    from tests.nets.parts import list_public

    silent = {
        name
        for _, name, thing in list_public()
        if isinstance(thing, type) and hasattr(thing, "summary") and not hasattr(thing, "fit")
        # A base without estimates is no result; its subclasses are.
        if not inspect.isabstract(thing)
        if thing.__str__ is object.__str__
    }
    # The repr of the first two says all in a line; a page takes the summaries of others.
    assert silent == {"ConfidenceInterval", "PrivacyBudget", "Page"}
