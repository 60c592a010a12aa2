"""Tables and figures for papers: what special characters become, what the notes state, what survives gray print."""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans, one_row_per_unit
from dpstats.inference import paper_figures, side_by_side
from dpstats.inference.figures import COLORS, ESTIMATE, REFERENCE, new_figure
from dpstats.inference.papers import in_latex
from dpstats.inference.results import Summary
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression
from dpstats.survival import PrivateSurvival

SPECIAL = "a<b>c|d&e%f_g#h$i{j}k~l^m\\n[o]*p`q\"r's--t"
ROWS = [["[0, 1)", "-0.31", "ε ≤ 2"], ["* of 5%", "[-3, 2]", "–"], [SPECIAL, "1e-06", "τ ± 1"]]
TABLE = Summary(SPECIAL, [("Privacy", "(epsilon = 1), one patient replaced")], ["", "n_1", "<x>"], ROWS, [SPECIAL])
rng = np.random.default_rng(0)
VISITS = pd.DataFrame(
    {"patient": np.arange(900) // 3, "age_<65>": rng.uniform(20, 80, 900), "arm": rng.choice(["a", "b"], 900)}
)
PATIENTS = one_row_per_unit(VISITS, "patient", {"age_<65>": "mean", "arm": "first"})
FITS = {f"{high} & up": ClippedMean(bounds=(0, high), random_state=0).fit(PATIENTS[["age_<65>"]]) for high in (90, 200)}


def document(*tables: str) -> str:
    packages = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs,threeparttable,rotating}"
    return "\n".join([packages, r"\begin{document}", *tables, r"\end{document}"])


def test_latex_escapes_every_special_character() -> None:
    text = TABLE.to_latex(caption=SPECIAL, label="tab:a_b")
    bare = re.sub(r"\\[a-zA-Z]+|\\[%&$#_{}]|\$[^$]*\$", "", text.replace("\\\\", "").replace(r"\label{tab:a_b}", ""))
    assert not re.findall(r"[<>|%#_^\\\"`]", bare.replace('"', "").replace(r"\begin", ""))
    assert in_latex("ΔHbA₁c ≈ 10⁻³, Α, σ²") == r"$\Delta$HbA$_1$c $\approx$ 10$^-$$^3$, A, $\sigma$$^2$"
    assert in_latex("< > | & % _ #") == r"\textless{} \textgreater{} \textbar{} \& \% \_ \#"
    # A bracket or a star after a line break would be its argument.
    assert not re.search(r"\\\\\n[\[*]", text) and r"{[}0, 1) & $-$0.31 & $\varepsilon$ $\leq$ 2 \\" in text


def test_a_table_of_a_paper_has_its_caption_label_guarantee_and_notes() -> None:
    fit = next(iter(FITS.values()))
    text = fit.to_latex(0.9, caption="Mean age.", label="tab:age")
    lines = text.splitlines()
    assert lines[:3] == [r"\begin{table}[htbp]", r"\centering", r"\begin{threeparttable}"]
    assert lines[3:5] == [r"\caption{Mean age.}", r"\label{tab:age}"]
    notes = text.partition(r"\begin{tablenotes}")[2]
    assert "Privacy: (epsilon = 1, delta = 0), one patient replaced" in notes and "Units of privacy: patients" in notes
    assert notes.count(r"\item") == 1 + len(fit.summary().notes) and "90\\% low" in text
    assert fit.to_latex().startswith(r"\begin{tabular}") and "tablenotes" not in fit.to_latex(caption="A", notes=False)
    markdown = fit.to_markdown(caption="Mean age.", label="tab:age")
    assert markdown.startswith("**Mean age.** {#tab:age}\n\n| ") and "one patient replaced" in markdown
    page = fit.to_html(caption="Mean age.", label="tab:age")
    assert "<caption>Mean age.</caption>" in page and 'id="tab:age"' in page and "one patient replaced" in page
    for wrong in ({"caption": 3}, {"label": "a b"}, {"label": "}"}, {"label": ""}):
        with pytest.raises(InvalidParameter, match=next(iter(wrong))):
            fit.to_latex(**wrong)


def test_html_and_markdown_escape_alike() -> None:
    class Reader(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.words: list[str] = []

        def handle_data(self, data: str) -> None:
            self.words.append(data)

    reader = Reader()
    reader.feed(TABLE.to_html(notes=True))
    assert reader.words.count(SPECIAL) == 3
    (row,) = [line for line in TABLE.to_markdown().splitlines() if "e%f" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 4 and "a&lt;b&gt;c" in row


def test_results_stand_side_by_side() -> None:
    table = side_by_side(FITS, title="Ages")
    assert list(table.columns) == ["", *FITS] and [row[0] for row in table.rows] == ["age_<65>"]
    frame = FITS["90 & up"].to_frame()
    shown = [float(number) for number in re.findall(r"-?[\d.]+", table.rows[0][1])]
    np.testing.assert_allclose(shown, frame[["estimate", "low", "high"]].to_numpy()[0], atol=0.06)
    groups = GroupMeans(bounds=(0, 90), groups=["a", "b"], by="arm", random_state=0)
    groups.fit(PATIENTS[["age_<65>", "arm"]])
    both = side_by_side({"all": FITS["90 & up"], "arms": groups}, confidence_level=0.9)
    assert [row[1] == "" for row in both.rows] == [False, True, True] and "90% interval" in dict(both.facts)["Cells"]
    for wrong in ({}, [groups], {"a": 3.0}, {"a": FITS["90 & up"].confidence_interval()}):
        with pytest.raises(InvalidParameter, match="results must"):
            side_by_side(wrong)


def test_what_noise_hides_is_a_dash_side_by_side() -> None:
    few = GroupMeans(bounds=(0, 1), groups=["a", "b"], epsilon=0.01, random_state=1)
    few.fit(np.full((9, 1), 0.5), np.array(["a"] * 9))
    hidden = np.isnan(few.to_frame()["estimate"].to_numpy())
    cells = [row[1] for row in side_by_side({"x": few}).rows]
    assert hidden.any() and [cell.startswith("–") for cell in cells] == hidden.tolist()


ARMS = ["placebo with standard care", "low dose of rivaroxaban (2.5 mg)", "high dose of rivaroxaban (20 mg)"]
HEADS = ["", *(f"{arm} (n = 1,880)" for arm in ARMS), *(f"SMD {arm}" for arm in ARMS[1:])]
WIDE = Summary(
    "Characteristics",
    [],
    HEADS,
    [
        ["length of stay in hospital, median [quartiles]", "9 [6, 14]", "8 [5, 11]", "7 [4, 10]", "", ""],
        ["sex, n (%)", *[""] * 5],
        ["  f", "1,017 (57.33)", "1,017 (57.33)", "179 (59.1)", "0.07", "-0.11"],
    ],
)


def printed_width(text: str) -> float:
    """Return the width of a tabular in points, by the widths of its font, at the size of its text."""
    lines = (Path(matplotlib.get_data_path()) / "fonts" / "afm" / "cmr10.afm").read_text("latin-1").splitlines()
    found = [re.match(r"C (\d+) ; WX ([\d.]+)", line) for line in lines]
    font = {chr(int(one[1])): float(one[2]) / 100 for one in found if one}
    # Fonts of smaller sizes are wider for their size.
    factor = {"small": 0.925, "footnotesize": 0.85, "scriptsize": 0.797}
    size = next((value for name, value in factor.items() if f"\\{name}\n\\setlength" in text), 1.0)
    inside = (
        text[text.index(r"\toprule") : text.index(r"\bottomrule")].replace(r"\toprule", "").replace(r"\midrule", "")
    )
    stacked = re.sub(r"\\shortstack\[.\]\{((?:[^{}]|\{.?\})*)\}", lambda m: m[1].replace(r"\\", "\0"), inside)
    plain = re.sub(r"\$-\$", "--", re.sub(r"\{(.?)\}", r"\1", stacked)).replace(r"\quad", "mm").replace(r"\%", "%")
    rows = [row.split("&") for row in plain.split(r"\\") if row.strip()]

    def width(line: str) -> float:
        return size * sum(3.33 if letter == " " else font[letter] for letter in line.strip())

    columns = zip(*rows, strict=True)
    each = [max(width(line) for cell in column for line in cell.split("\0")) for column in columns]
    return sum(each) + len(each) * (6 if "tabcolsep" in text else 12)


def test_a_table_with_long_headers_is_as_narrow_as_a_line() -> None:
    text = WIDE.to_latex(caption="Characteristics")
    # At most 5 points beyond the line of an article.
    assert 250 < printed_width(text) < 350 and r"\shortstack[r]{SMD \\ low" in text and "sideways" not in text
    assert max(map(len, str(WIDE).splitlines())) <= 130
    narrow = Summary("", [], HEADS[:2], [row[:2] for row in WIDE.rows[1:]])
    assert "shortstack" not in narrow.to_latex() and printed_width(narrow.to_latex(caption="")) < 350
    more = [*HEADS, *HEADS[1:4]]
    turned = Summary("", [], more, [[*row, *row[1:4]] for row in WIDE.rows]).to_latex(caption="Turned")
    assert r"\begin{sidewaystable}" in turned and turned.endswith(r"\end{sidewaystable}")
    assert 345 < printed_width(turned) < 545


def test_headers_of_a_page_break_their_lines_and_wide_tables_scroll() -> None:
    page = WIDE.as_html()
    head = page[page.index("<thead>") : page.index("</thead>")]
    assert "nowrap" not in head and '<div style="overflow-x:auto"><table class="estimates"' in page


needs_latex = pytest.mark.skipif(not (shutil.which("tectonic") or shutil.which("pdflatex")), reason="needs LaTeX")


def compile_tables(folder: Path, tables: list[str]) -> None:
    (folder / "a.tex").write_text(document(*tables), encoding="utf-8")
    once = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode"]
    command = ["tectonic"] if shutil.which("tectonic") else once
    done = subprocess.run([*command, "a.tex"], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (folder / "a.pdf").stat().st_size > 1000


@needs_latex
def test_tables_compile(tmp_path: Path) -> None:
    tables = [
        side_by_side(FITS).to_latex(label="tab:both"),
        TABLE.to_latex(caption=SPECIAL),
        TABLE.to_latex(),
        WIDE.to_latex(caption="Wide"),
        FITS["90 & up"].to_latex(notes=True),
    ]
    compile_tables(tmp_path, tables)


@needs_latex
def test_the_table_of_every_result_compiles(tmp_path: Path) -> None:
    from tests.nets.calls import ESTIMATORS, fitted
    from tests.nets.test_forms import RESULTS

    fits = [fitted(name) for name in ESTIMATORS]
    made = [*fits, *(fit.result_ for fit in fits if hasattr(fit, "result_")), *(make() for make in RESULTS.values())]
    tables = []
    for number, result in enumerate(one for one in made if hasattr(one, "to_latex")):
        for more in ({}, {"notes": True}, {"caption": SPECIAL, "label": f"tab:{number}_a"}):
            tables += [result.to_latex(**more), r"\clearpage"]
    assert len(tables) > 400
    compile_tables(tmp_path, tables)


@pytest.mark.parametrize(("columns", "width"), [(1, 3.5), (2, 7.2)])
def test_figures_have_the_width_of_columns(columns: int, width: float) -> None:
    survival = PrivateSurvival(horizon=5.0, groups=["a", "b"], random_state=0)
    survival.fit(rng.exponential(3, 600), rng.integers(0, 2, 600), rng.choice(["a", "b"], 600))
    model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-2, 2), random_state=0)
    model.fit(rng.uniform(-1, 1, (900, 2)), rng.uniform(-1, 1, 900))
    with paper_figures(columns):
        for fit in (survival, model, FITS["90 & up"]):
            figure = np.ravel(fit.plot())[0].figure
            assert figure.get_figwidth() == width and 1.0 < figure.get_figheight() <= 9.0
            figure.draw_without_rendering()
    assert new_figure(figsize=(5, 4)).get_figwidth() == 5
    with pytest.raises(InvalidParameter, match="columns must be 1 or 2, got 3"), paper_figures(3):
        pass


def lightness(color: str) -> float:
    """Return the lightness L* of a color, from 0 to 100."""
    parts = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(116 * (linear @ [0.2126, 0.7152, 0.0722]) ** (1 / 3) - 16)


def test_colors_survive_gray_print() -> None:
    assert abs(lightness(ESTIMATE) - lightness(REFERENCE)) > 18
    found = [lightness(color) for color in COLORS]
    assert min(abs(a - b) for i, a in enumerate(found) for b in found[:i]) > 6 and max(found) < 75
    # Of up to four curves, every two differ by as much as the first two.
    assert min(abs(a - b) for i, a in enumerate(found[:4]) for b in found[:i]) > 9
