"""Count breaches of plain English in docstrings, comments, messages and pages.

python tests/prose.py                       # findings and words of every group
python tests/prose.py dpstats/means         # every finding of some files
python tests/prose.py --lower               # lower the counts in tests/prose.txt to the present ones

`make test` compares the counts with those of `tests/prose.txt`, which may only fall.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "prose.txt"
TEXTS = ("README.md", "CONTRIBUTING.md", "docs", "dpstats")
ERRORS = "error messages"
NEVER = ("README.md", "docs/index.md", ERRORS)
"""Groups in which there must be no finding."""

LONGEST = {"sentence": 30, "paragraph": 90, "cell": 30, "message": 45}
"""Number of words."""

PHRASES = {
    "name the thing": (
        r"\bwhat (?:is|are|was|were|has been|had|there)\b(?! proved)"
        r"|\b(?:of|about|from|by|than|say|says) what\b"
    ),
    "repeat the noun": r"\b(?:that|those) of\b",
    "split the sentence": (
        r"\bof (?:which|whom|whose)\b|\b(?:within|outside) which\b|\bby how much\b"
        r"|\b(?:in|for|by|about|with) whose\b|\bhow many times as\b"
    ),
    "distinguish, report": (
        r"\b(?:told|tells?) (?:apart|from|them|it|how|which|that|of|about)\b|\b(?:is|are|was) told\b"
        r"|\bcannot tell\b"
    ),
    "distribution": (
        r"\b(?:the|a|its|their|this|exact|null|discrete|any|whose|own|every|other|joint|same|one"
        r"|two) laws?\b(?! of large)"
        r"|\blaws? of\b"
    ),
    "bound, endpoint, limit": (
        r"\b(?:nearer|lower|upper|public|declared|both|its|their|an|chosen"
        r"|other) ends?\b(?! of (?:the )?(?:line|file|string|fit|run|call|day))"
        r"|\bends of\b"
    ),
    "together with, next to": (
        r"\bbeside (?:the|a|an|it|them|each|its|their|whatever|that|those)\b|\breleased beside\b"
    ),
    "name the report": r"\b(?:say|says|said) so\b",
    "use, depend on": r"\b(?:go|goes|went) by\b",
    "only, almost none, nearly all": (
        r"\bnothing but\b|\bnext to (?:nothing|all|no|none)\b|\bno more than that\b|\ball but\b"
    ),
    "otherwise, everything else": r"(?:(?<=[.;:,] )|^)else\b|\ball else\b",
    "its own, a separate": (
        r"\b(?:a|an|no|any) [\w ]{1,25} of (?:its|their|our) own\b|\b[a-z]+s? of (?:ours|theirs)\b"
    ),
    "correct, happen": r"\bsets? right\b|\bmade? good\b|\bcome to pass\b",
    "error, bias, differ by": r"\bhow (?:far|much) off\b|\b(?:is|are|be) off\b",
    "remaining, remain": r"\b(?:is|are|was|be) left\b(?! out| to right)|\b(?:has|have) left\b",
    "separately, alone": r"\bby (?:itself|themselves)\b|\bon (?:its|their) own\b",
    "any, regardless of": r"\bwhatever\b",
    "again, sometimes, rarely, finally": (
        r"\bonce more\b|\banew\b|\bnow and then\b|\bhardly ever\b|\bfor sure\b|\bin the end\b"
    ),
    "people": r"\bpersons\b",
    "assume, treat as": (
        r"\b(?:is|are|be) taken (?:to be|for|as)\b|\b(?:is|are) thought\b"
        r"|\btakes? \w+(?: \w+)? (?:to be|to have)\b"
    ),
    "name the quantity": (
        r"\b(?:is|are|was) (?:known|asked|said|seen|had) of\b|\bthere (?:is|are) of\b|\bwhat there\b"
    ),
    "request, evaluate": r"\b(?:is|are|was|were) asked\b|\bif asked\b",
    "is not a": (
        r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|fewer\b|less\b|greater\b|larger\b|smaller\b"
        r"|further\b)[a-z]+\b"
    ),
    "if, up to; or give the number": (
        r"\b(?:so|as) far as\b|\bas much as (?:it|that|they)\b|\bso many\b|\bby as much as\b"
    ),
    "name it": (r"\bthe ones? (?:that|which|of|beside|from|meant|with)\b|\bone (?:beside|more of|that tells)\b"),
    "be specific, or cut": r"\bthe like\b|\bsuch is\b|\bas (?:it is|they are)\b(?! \w+ed)",
    "in plain language; or cut": r"\bin (?:the )?words\b",
    "coverage below the level": (
        r"\bmiss(?:es)? more often\b|\bcovers? (?:less|more)(?: often)? than (?:it|they) says?\b"
    ),
    "bug, error, defect": r"\ba fault\b|\bfaults (?:found|of|in|elsewhere)\b|\bfaults?\b(?=[.,;])",
    "standard deviation, range": (
        r"\b(?:a|the|private|public|stated|released|own|their|its|of) spreads?\b|\bspread of\b"
    ),
    "proportion, fraction": (
        r"\bshares? of (?:the |an? |its |what )?(?:rows?|entr\w+|outcomes?|privacy|budget|epsilon|noise)\b"
        r"|\b(?:what|the|a) shares?\b"
    ),
    "smaller, more likely": r"\b(?:better|likelier|truer|surer) of\b|\blikelier\b",
    "say what happens": (
        r"\bcomes? (?:to be|out|of it)\b|\bstands? (?:beside|there|for itself)\b"
        r"|\blies? (?:beside|evenly)\b"
    ),
    "concern, estimate; must be": (r"\b(?:is|are) about (?!\d|an? |half|twice|ten|as |code)|\b(?:is|are) to be\b"),
    "state what does hold": r"\bnothing (?:of|follows|is known|is said)\b|\bsays? nothing\b|\bno word\b",
    "write a zero before the point": r"(?<![\w.)\]/*])\.\d+\b(?!\w*\()",
    "American spelling": (
        r"\b(?:cent(?:re|red|res|ring)|neighbou(?:rs?|ring)|label(?:led|ling)|behaviours?|colou?red"
        r"|colours?|favour\w*|cancelled|judgement|(?:normal|general|optim|minim|maxim|random"
        r"|summar)is(?!t|m|k)\w+|model(?:led|ling)|discretis\w+|analysed?)\b"
    ),
}
"""What to write, and the constructions that it replaces."""

_PHRASES = [(re.compile(pattern), remedy) for remedy, pattern in PHRASES.items()]
_WORD = re.compile(r"[^\W_](?:[\w'’\-]*\w)?")
_CODE = re.compile(r"``[^`]+``|`[^`]+`")
_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!al\.)(?<!cf\.)(?<!vs\.)[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9]|[\"']\w)"
)
_NO_OBJECT = re.compile(
    r"(?:Returns?|Yields?|Say|Tell) (?:what|how|which|that|those|where|one|the one|by)\b"
    r"|(?:What|Whether|How|Where|Which|Of|By|In|At|For|Without|That|Those)\b"
)
_FRAGMENT = re.compile(r"(?:Of|Whatever|What|Else|Whose|Which|That of|Those of|No more)\b")
_SHORT_FRAGMENT = re.compile(
    r"(?:By|At|From|With|Without|Beyond|Within|Under|Over|To|As|Where|How|But|Than|Less|In|For)\b"
)
_IDIOM = re.compile(
    r"\bmust be (?:of|those|that|one for)\b|\b(?:is|are) (?:of (?!type|shape|length|size)|for (?!example))"
    r"|\bthere is no\b|\bmeans? nothing\b|\bis meant\b"
)
_REMEDY = re.compile(
    r"does not define|has no attribute|\bdefect\b|\bgot\b|\((?:line )?X\)|[;:]"
    r"|\b(?:[Uu]se|[Gg]ive|[Pp]ass|[Ss]et|[Cc]all|[Ff]it|[Dd]rop|[Rr]aise|[Ii]nstall|[Aa]dd"
    r"|[Rr]emove|[Rr]ename|[Cc]hange|must|needs?)\b"
)
_SECTION = re.compile(
    r"parameters|attributes|returns|yields|raises|notes|references|examples|methods|warns|warnings|see also"
)
_PREPOSITION = re.compile(
    r"of|by|with|from|to|at|in|on|for|beside|about|beyond|without|against|between|under|over"
    r"|towards?|off|as|than"
    r"|after|before|outside|inside|around|within|through|per|out|up|down|apart"
)
_STARTS = ("from_", "to_", "as_", "in_", "on_", "per_", "built_in", "opt_in", "drop_in")
_IDIOMATIC = re.compile(r"told|beside|apart|laws?|purse|lie|asked|likely|whose")
_PARTICIPLE = re.compile(
    r"left|known|seen|found|taken|given|put|cut|met|held|kept|told|made|drawn|spent|lost|split|"
    r"(?!(?:seed|feed|need|speed|shed|embed|proceed|exceed|succeed)$)\w+ed"
)


class Block(NamedTuple):
    """A paragraph: its first line, and its text on one line.

    `kind` is summary (the first paragraph of a function's docstring), docstring, comment, error, text, page or cell.
    """

    line: int
    text: str
    kind: str

    @property
    def n_words(self) -> int:
        return len(_WORD.findall(self.text))


class Finding(NamedTuple):
    """A breach: its line, its group, and how to mend it."""

    path: str
    line: int
    group: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.remedy}"


def python_blocks(source: str) -> Iterator[Block]:
    """Yield the docstrings, messages and comments of a Python file."""
    kinds: dict[ast.AST, str] = {}
    in_string, texts, multiline = set(), [], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kinds.setdefault(node.value, "docstring")
        elif isinstance(node, ast.FunctionDef) and not _is_property(node):
            if isinstance(node.body[0], ast.Expr):
                kinds[node.body[0].value] = "summary"
        elif isinstance(node, ast.Raise) and node.exc:
            # A call of refuse() has parts of the sentence, and what it makes has the value or its description.
            made = isinstance(node.exc, ast.Call) and getattr(node.exc.func, "id", "").startswith("refuse")
            kinds |= dict.fromkeys(ast.walk(node.exc), "text" if made else "error")
        elif isinstance(node, ast.JoinedStr):
            in_string.update(node.values)
        if isinstance(node, ast.JoinedStr | ast.Constant) and node not in in_string:
            texts.append(node)
    for node in texts:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(part.value if _is_text(part) else "X" for part in parts)
        kind = kinds.get(node, "text")
        if node.end_lineno != node.lineno:
            multiline.update(range(node.lineno, (node.end_lineno or 0) + 1))
        if kind in ("docstring", "summary") and _is_text(node):
            yield from docstring_blocks(text, node.lineno, kind)
        elif len(_WORD.findall(text)) >= 4 and not re.search(r"SELECT|FROM |</?[a-z]|^\s*[{\[(#]", text):
            yield Block(node.lineno, " ".join(text.split()), kind)
    yield from comment_blocks(source, multiline)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def docstring_blocks(text: str, first_line: int, kind: str) -> Iterator[Block]:
    """Yield the paragraphs of a docstring, without examples, fields and references."""
    paragraph: list[str] = []
    start, in_example, literal, in_references = first_line, False, None, False
    lines = [*text.split("\n"), "", ""]
    for offset, raw in enumerate(lines[:-1]):
        line, indent = raw.strip(), len(raw) - len(raw.lstrip())
        heading = _SECTION.fullmatch(line.lower()) and set(lines[offset + 1].strip()) == {"-"}
        field = offset > 0 and re.match(r"[\w*, `]+ : \S", line)
        if literal is not None and line and indent <= literal:
            literal = None
        if not line or heading or field or line.startswith((">>>", ".. ", "* ")):
            block = Block(start, " ".join(paragraph), kind)
            if block.n_words >= 2:
                yield block
                kind = "docstring"
            paragraph, in_example = [], line.startswith(">>>")
            if line.startswith("* "):
                start, paragraph = first_line + offset, [line[2:]]
            in_references = line.lower() == "references" if heading else in_references
        elif not (in_example or in_references or set(line) == {"-"} or (literal is not None and indent > literal)):
            start = start if paragraph else first_line + offset
            paragraph.append(line)
            literal = indent if line.endswith("::") else literal


def comment_blocks(source: str, multiline: set[int]) -> Iterator[Block]:
    """Yield the comments of a Python file; lines of longer strings are none."""
    paragraph: list[str] = []
    start = 0
    for number, raw in enumerate([*source.split("\n"), ""], 1):
        line = raw.strip()
        if line.startswith("#") and number not in multiline and not re.match(r"#!|#\s*(?:noqa|type:|ruff)", line):
            start = start if paragraph else number
            paragraph.append(line.lstrip("# "))
            continue
        if paragraph:
            yield Block(start, " ".join(paragraph), "comment")
            paragraph = []
        behind = re.search(r"\s{2}#\s+(?!noqa|type:)(.+)$", raw)
        if behind and number not in multiline and raw[: behind.start()].count('"') % 2 == 0:
            yield Block(number, behind[1], "comment")


def markdown_blocks(source: str) -> Iterator[Block]:
    """Yield the paragraphs and the cells of tables of a page, without code."""
    fence, paragraph, start = "", list[str](), 0
    for number, raw in enumerate([*source.split("\n"), ""], 1):
        line = raw.strip()
        if fence:
            fence = "" if line.startswith(fence) else fence
            continue
        opening = re.match(r"`{3,}|~{3,}", line)
        bullet = re.match(r"(?:[*+-]|\d+\.)\s+", line)
        other = line.startswith(("#", "|", "<", "!", "---", ":::")) or (raw.startswith("    ") and not paragraph)
        if paragraph and (not line or bullet or opening or other):
            yield Block(start, " ".join(paragraph), "page")
            paragraph = []
        if opening:
            fence = opening.group()
        elif line.startswith("|"):
            cells = (Block(number, _plain(cell.strip()), "cell") for cell in line.strip("|").split("|"))
            yield from (cell for cell in cells if cell.n_words >= 3)
        elif line and not other:
            start = start if paragraph else number
            paragraph.append(_plain(line[bullet.end() :] if bullet else line))


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", _CODE.sub("CODE", text))


def breaches(block: Block) -> Iterator[str]:
    """Yield the breaches of a paragraph, each with its remedy."""
    text, n_words = _CODE.sub("CODE", block.text), block.n_words
    lowered, shown = text.lower(), text[:80]
    for pattern, remedy in _PHRASES:
        for match in pattern.finditer(lowered):
            around = lowered[max(match.start() - 25, 0) : match.end() + 25].strip()
            yield f"'...{around}...': {remedy}"
    if block.kind in ("error", "text"):
        if n_words > LONGEST["message"]:
            yield f"'{shown}...': {n_words} words in a message"
        if block.kind == "error" and _IDIOM.search(text):
            yield f"'{shown}': write 'PARAMETER must be ALLOWED, got VALUE'"
        if block.kind == "error" and not _REMEDY.search(text):
            yield f"'{shown}': an error without a value and a remedy"
        return
    if block.kind == "cell":
        if n_words > LONGEST["cell"]:
            yield f"'{shown}...': {n_words} words in a cell"
        return
    if block.kind == "summary" and _NO_OBJECT.match(text):
        yield f"'{shown}': a summary needs a verb and an object"
    if n_words > LONGEST["paragraph"]:
        yield f"'{shown}...': {n_words} words in a paragraph"
    for sentence in _END.split(text):
        length = len(_WORD.findall(sentence))
        if length > LONGEST["sentence"]:
            yield f"'{sentence[:80]}...': {length} words in a sentence"
        short = len(sentence) < 90 and ", " not in sentence and not sentence.endswith("?")
        tiny = short and sentence.count(" ") < 6
        if (
            block.kind != "page"
            and block.kind != "summary"
            and ((short and _FRAGMENT.match(sentence)) or (tiny and _SHORT_FRAGMENT.match(sentence)))
        ):
            yield f"'{sentence}': a fragment"


def unclear_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of functions, classes and parameters that are prepositions, participles or idioms."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = node.name
        else:
            continue
        words = [word for word in name.lower().split("_") if word]
        if not words or name.startswith("__") or name.strip("_").startswith(_STARTS) or name.endswith("built_in"):
            continue
        parameter = isinstance(node, ast.arg)
        preposition = (_PREPOSITION.fullmatch(words[-1]) and (len(words) > 1 or not parameter)) or (
            _PREPOSITION.fullmatch(words[0]) and not parameter
        )
        participle = (
            isinstance(node, ast.FunctionDef) and not _is_property(node) and _PARTICIPLE.fullmatch("_".join(words))
        )
        if preposition or (participle and len(words) == 1) or any(map(_IDIOMATIC.fullmatch, words)):
            yield node.lineno, f"'{name}': a function is a verb, anything else a noun, without a preposition"


def group_of(path: Path) -> str:
    """Return the group in which the findings of a file count: a package, a folder of pages, or a page."""
    parts = path.relative_to(ROOT).parts if path.is_absolute() else path.parts
    name = "/".join(parts)
    if len(parts) == 1 or name in NEVER:
        return name
    return "/".join(parts[:2]) if len(parts) > 2 else f"{parts[0]}/*{path.suffix}"


def check(path: str, source: str, group: str) -> tuple[list[Finding], Counter[str]]:
    """Return the findings of a file, and the words of its groups."""
    is_python = path.endswith(".py")
    found = [Finding(path, line, group, text) for line, text in unclear_names(source)] if is_python else []
    words: Counter[str] = Counter()
    for block in python_blocks(source) if is_python else markdown_blocks(source):
        its_group = ERRORS if block.kind == "error" else group
        words[its_group] += block.n_words
        found += [Finding(path, block.line, its_group, text) for text in breaches(block)]
    return found, words


@cache
def check_all() -> tuple[list[Finding], Counter[str]]:
    """Return all findings, and the words of all groups."""
    found, words = list[Finding](), Counter[str]()
    for top in map(ROOT.joinpath, TEXTS):
        files = [top] if top.is_file() else sorted([*top.rglob("*.py"), *top.rglob("*.md")])
        for path in files:
            if {"_build", "__pycache__", "generated"} & set(path.parts):
                continue
            name = path.relative_to(ROOT).as_posix()
            findings, n_words = check(name, path.read_text(encoding="utf-8"), group_of(path))
            found += findings
            words.update(n_words)
    return found, words


def allowed() -> dict[str, int]:
    """Return the allowed number of findings of every group."""
    lines = [line.rsplit(maxsplit=1) for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return {group: int(count) for group, count in lines}


def counts() -> dict[str, int]:
    """Return the number of findings of every group."""
    found, words = check_all()
    number = Counter(finding.group for finding in found)
    return {group: number[group] for group in sorted({*words, *NEVER})}


def lower() -> None:
    """Write the table: each count falls to the present one, and none rises."""
    head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
    most = defaultdict(int, allowed())
    rows = [f"{group} {min(count, most[group])}" for group, count in counts().items()]
    TABLE.write_text("\n".join([*head, *rows]) + "\n")


def main(arguments: list[str]) -> None:
    if arguments == ["--lower"]:
        lower()
    found, words = check_all()
    number = counts()
    if arguments and arguments != ["--lower"]:
        for finding in found:
            if finding.path.startswith(tuple(arguments)) or finding.group in arguments:
                print(finding)
        return
    for group in sorted(number, key=lambda group: -number[group]):
        print(f"{group:20} {words[group]:7,} words {number[group]:5} findings")
    total, n_words = sum(number.values()), sum(words.values())
    print(f"{'all':20} {n_words:7,} words {total:5} findings, {1000 * total / n_words:.1f} per 1,000 words")


if __name__ == "__main__":
    main(sys.argv[1:])
