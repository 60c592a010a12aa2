"""The HTML page: words are escaped, pictures are inside, nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import re

from matplotlib.figure import Figure

from dpstats.report import Page


def test_a_page_escapes_its_words_and_holds_its_pictures() -> None:
    page = Page("A < B", "lead & more")
    page.section("One <part>").text("x < y")
    page.code("run --if a<b")
    page.table(["name", "<value>"], [["a & b", "1"]])
    page.fragment("<hr>")
    page.picture(Figure(), 'a "caption"')
    text = page.as_html()
    for part in ("A &lt; B", "lead &amp; more", "One &lt;part&gt;", "x &lt; y", "run --if a&lt;b", "<hr>"):
        assert part in text
    assert "<th>a &amp; b</th><td>1</td>" in text and "<th>&lt;value&gt;</th>" in text
    picture = re.search(r'src="data:image/png;base64,([^"]+)"', text)
    assert picture is not None and base64.b64decode(picture.group(1)).startswith(b"\x89PNG")
    assert "http" not in text and "<script" not in text
