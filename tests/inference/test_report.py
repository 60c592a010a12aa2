"""The HTML page: words are escaped, pictures inside, nothing comes from elsewhere, and nothing private gets in."""

from __future__ import annotations

import base64
import importlib.util
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dpstats.auditing import audit_outputs, audit_probabilities, check_sensitivity
from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.inference.reports import SIMULATED, Page, page_of, told_value
from dpstats.means import ClippedMean
from dpstats.mechanisms import Histogram, RandomizedResponse
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateDistribution, PrivateQuantile
from dpstats.regression import PrivateLinearRegression
from dpstats.tables import ContingencyTable, PrivateProportion


@pytest.mark.parametrize("name", ["$0-9% to $10", "$\\q$", "$x_{$"])
def test_dollars_in_names_are_drawn_as_they_are(tmp_path: Path, name: str) -> None:
    table = Histogram([name, "b"], epsilon=1.0, random_state=0).release([name, "b"] * 9)
    frame = pd.DataFrame({name: np.linspace(-1, 1, 40)})
    groups = GroupMeans(groups=[name, "b"], bounds=(-1, 1), delta=1e-6, random_state=0).fit(frame, [name, "b"] * 20)
    for release in (table, groups):
        page = release.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "data:image/png" in page and "is left out" not in page


def test_a_picture_that_cannot_be_drawn_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thing: Any) -> None:
        raise ValueError("cannot be drawn")

    monkeypatch.setattr("dpstats.inference.reports.picture_of", fails)
    table = Histogram(["a", "b"], epsilon=1.0, random_state=0).release(["a", "b"] * 9)
    page = table.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The picture is left out" in page and "data:image/png" not in page


def test_what_is_no_character_is_replaced_and_no_file_is_left_beside(tmp_path: Path) -> None:
    Page("a \udcff and \0 title").write(tmp_path / "page.html")
    written = (tmp_path / "page.html").read_bytes()
    assert b"\0" not in written and b"a ? and" in written
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(InvalidParameter, match="null character"):
        Page("t").write(f"{tmp_path}/a\0b.html")


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_a_page_written_again_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    Page("first").write(path)
    path.chmod(0o600)
    Page("second").write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and "second" in path.read_text(encoding="utf-8")


def test_the_page_of_a_budget_names_the_ledger_without_its_folder(tmp_path: Path) -> None:
    budget = PrivacyBudget(1.0, ledger=tmp_path / "spent.sqlite")
    page = page_of(budget).as_html()
    assert "spent.sqlite" in page and str(tmp_path) not in page


def test_a_page_escapes_its_words_and_holds_its_pictures() -> None:
    page = Page("A < B", "lead & more")
    page.section("One <part>").text("x < y")
    page.code("run --if a<b")
    page.table(["name", "<value>"], [["a & b", "1"]])
    page.picture(Figure(), 'a "caption"')
    text = page.as_html()
    for part in ("A &lt; B", "lead &amp; more", "One &lt;part&gt;", "x &lt; y", "run --if a&lt;b"):
        assert part in text
    assert '<th scope="row">a &amp; b</th><td>1</td>' in text and '<th scope="col">&lt;value&gt;</th>' in text
    picture = re.search(r'src="data:image/png;base64,([^"]+)"', text)
    assert picture is not None and base64.b64decode(picture.group(1)).startswith(b"\x89PNG")
    assert "http" not in text and "<script" not in text


RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
COLUMNS = [[0, 1], [0, 1]]
TABLE = RNG.integers(2, size=(200, 2))


def regression(state: Any) -> Any:
    made = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-9, 9), epsilon=50.0, random_state=state)
    return made.fit(X, X @ [1.0, -1.0])


MADE = {
    "mean": lambda state: ClippedMean(clip=3.0, delta=1e-6, random_state=state).fit(X),
    "groups": lambda state: GroupMeans(groups=[0, 1], bounds=(-3, 3), random_state=state).fit(X, TABLE[:, 0]),
    "proportion": lambda state: PrivateProportion(random_state=state).fit(TABLE[:, 0]),
    "table": lambda state: ContingencyTable(levels=COLUMNS, random_state=state).fit(TABLE),
    "quantiles": lambda state: PrivateQuantile([0.3, 0.7], bounds=(-4, 4), random_state=state).fit(X[:, 0]),
    "distribution": lambda state: PrivateDistribution(bounds=(-4, 4), random_state=state).fit(X[:, 0]),
    "histogram": lambda state: Histogram(["a", "b"], 1.0, random_state=state).release(["a", "b", "b"]),
    "regression": regression,
    "test of a value": lambda state: ClippedMean(clip=3.0, random_state=state).fit(X).test(0.0),
    "test of coefficients": lambda state: regression(state).f_test(),
    "difference": lambda state: MADE["groups"](state).difference(0, 1),
    "pairs": lambda state: MADE["groups"](state).pairwise(),
    "variance": lambda state: MADE["groups"](state).anova(n_simulations=99),
    "ratio": lambda state: MADE["table"](state).risk_ratio(),
}


@pytest.mark.parametrize("name", MADE)
def test_whatever_has_a_summary_is_a_page(name: str, tmp_path: Path) -> None:
    made = MADE[name](3)
    text = made.to_html(tmp_path / "page.html").read_text()
    # Simulated noise is said where it is, at the top or in a note.
    # As a notice, beside what the summary says of it.
    assert f'<p class="notice" role="note">{SIMULATED}</p>' in text
    assert check_page(text) == []
    assert made.summary().title in text
    for note in getattr(getattr(made, "plan_", None), "notes", list)():
        assert parsed(text).words.count(note) == 1
    for _, value in made.summary().facts:
        assert parsed(text).words.count(value) >= 1


def test_a_release_says_what_it_is(tmp_path: Path) -> None:
    text = MADE["mean"](None).to_html(tmp_path / "page.html", title="Two columns").read_text()
    assert SIMULATED not in text and "<h1>Two columns</h1>" in text
    for part in ("What this means for privacy", "at most 2.72", "Release plan"):
        assert part in text
    assert ">clip</th><td>3</td>" in text and "At their defaults: bounds = None" in text


def test_nothing_but_what_is_released_and_public_is_on_a_page(tmp_path: Path) -> None:
    # Rows that no other number is equal to, a generator and a budget.
    rows = RNG.normal(123.456789, 1e-3, size=(40, 1))
    budget = PrivacyBudget(10.0, 1e-3)
    made = ClippedMean(bounds=(0, 200), epsilon=0.5, delta=1e-6, budget=budget).fit(rows)
    made.rows_, made.private_ = rows, rows[0]
    text = made.to_html(tmp_path / "page.html").read_text()
    assert "budget" not in text.lower() and "random_state" not in text
    numbers = re.findall(r"123\.4\d+", re.sub(r'src="[^"]*"', "", text))
    assert not set(numbers) & {f"{x:.{k}f}" for x in rows.ravel() for k in (3, 4, 5, 6)}
    # The same releases from other rows are the same page.
    pair = [ClippedMean(clip=1.0, random_state=5).fit(np.full((10, 1), far)) for far in (7.0, 9.0)]
    pages = [re.sub(r"on \d+-.* UTC", "", page_of(fit).as_html()) for fit in pair]
    assert pages[0] == pages[1]


def test_audits_checks_and_budgets_are_pages(tmp_path: Path) -> None:
    yes, no = (np.where(RNG.random(2000) < p, "yes", "no") for p in (0.75, 0.25))
    survey = RandomizedResponse(1.0)
    budget = PrivacyBudget(1.0)
    budget.charge(survey.guarantee, label="a < b")
    for made in (
        audit_outputs(yes, no, epsilon=0.5),
        audit_probabilities(survey.probabilities, [(0, 1)], epsilon=1.0),
        check_sensitivity(sum, (0, 1), (0, 3), sensitivity=2.0),
        budget,
        budget.summary(),
    ):
        text = made.to_html(tmp_path / "page.html").read_text()
        assert check_page(text) == [] and made.summary().title in text
    assert "a &lt; b" in text


def test_without_matplotlib_a_page_has_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    with_picture = page_of(MADE["proportion"](1)).as_html()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    without = page_of(MADE["proportion"](1)).as_html()
    assert "<figure>" in with_picture and "<figure>" not in without and "matplotlib" not in without
    assert re.sub(r"<figure>.*?</figure>\n", "", with_picture, flags=re.S) == without


def test_a_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, target = Page("A page"), tmp_path / "page.html"
    target.write_text("before")
    link = tmp_path / "link.html"
    link.symlink_to(target)
    assert page.write(str(link)) == link and link.is_symlink() and "A page" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) & 0o400

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    kept = target.read_text()
    with pytest.raises(InvalidParameter, match=r"path must name a file that can be written, got .* \(No space left"):
        page.write(target)
    assert target.read_text() == kept and sorted(tmp_path.iterdir()) == [link, target]


@pytest.mark.parametrize("path", ["missing/page.html", ".", "file/page.html"])
def test_a_path_that_cannot_be_written_is_one_clear_error(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameter, match="path must name a file that can be written"):
        Page("A page").write(tmp_path / path)


def test_parameters_are_told_in_words() -> None:
    for value, words in (
        (1.0, "1"),
        (0.1 + 0.2, "0.3"),
        (np.longdouble("0.05"), "0.05"),
        (np.float32(0.5), "0.5"),
        ("clip", "clip"),
        (np.array([1.0, 2.5]), "(1, 2.5)"),
        (np.zeros((30, 2)), "an array, 30 x 2"),
        ({"a": (0, 1)}, "(a: (0, 1))"),
        (list(range(100)), "100 entries"),
        (np.mean, "mean"),
        (object(), "object"),
        ("x" * 400, "x" * 400),
    ):
        assert told_value(value) == words


class Parsed(HTMLParser):
    """The headings, tags and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.seen: dict[str, int] = {}
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag == "th" and given.get("scope") not in ("row", "col"):
            self.wrong.append("a header without scope")
        if tag == "img" and not given.get("alt"):
            self.wrong.append("a picture without words")
        if tag == "html" and given.get("lang") != "en":
            self.wrong.append("no language")
        if tag in ("script", "link", "iframe") or str(given.get("src", "data:"))[:5] != "data:":
            self.wrong.append(f"{tag} from elsewhere")
        if tag not in ("meta", "img", "hr", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"{tag} closed out of order")

    def handle_data(self, data: str) -> None:
        self.words += data


def parsed(text: str) -> Parsed:
    return Parsed(text)


def check_page(text: str) -> list[str]:
    """Return what is wrong with a page."""
    found = parsed(text)
    wrong = list(found.wrong)
    if found.headings[0] != 1 or found.headings.count(1) != 1:
        wrong.append("not one title")
    wrong += ["a heading skipped" for a, b in zip(found.headings, found.headings[1:], strict=False) if b > a + 1]
    if found.seen.get("table", 0) != found.seen.get("caption", 0):
        wrong.append("a table without caption")
    if 'name="viewport"' not in text or "@media print" not in text or "prefers-color-scheme: dark" not in text:
        wrong.append("no rules for phones, paper or the dark")
    if found.open or "http" in text:
        wrong.append("open tags, or an address")
    return wrong


def test_a_page_that_is_wrong_is_found() -> None:
    good = page_of(MADE["mean"](1)).as_html()
    assert check_page(good) == []
    for old, new in (
        (' scope="row"', ""),
        ("<h2>", "<h3>"),
        (' lang="en"', ""),
        ("</table>", ""),
        ("<main>", '<main><script src="http://a"></script>'),
    ):
        assert check_page(good.replace(old, new)) != []
