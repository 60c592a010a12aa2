"""What a planted mutant is, and the list of them: `lists/*.toml`, one file for each package.

A mutant is a change of one text in one file, which some test must notice. A text that the code no longer holds as
often as stated is refused, by the mutant's name: the list has to follow the code.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LISTS = Path(__file__).resolve().parent / "lists"
KINDS = ("privacy", "validity", "neither")


class DoesNotFit(Exception):
    """A mutant whose text is not in the code as often as the list says, or that is no Python any more."""


@dataclass(frozen=True)
class Mutant:
    """A planted defect.

    Attributes
    ----------
    name : str
        Unique in the list.
    file : str
        The path of the file in the repository.
    old, new : str
        The text, and what stands in its place.
    kind : {"privacy", "validity", "neither"}
        What is lost if it stays: a guarantee, the truth of an estimate, an interval or a report, or neither.
    what : str
        The defect in words.
    count : int
        How often the text occurs; all of these are replaced.
    allowed : str
        The reason why no test needs to notice it; "" where one must.
    """

    name: str
    file: str
    old: str
    new: str
    kind: str
    what: str
    count: int = 1
    allowed: str = ""

    def applied(self, source: str) -> str:
        """Return the source of the file with the defect in it, or raise `DoesNotFit`."""
        found = source.count(self.old) if self.old else 0
        if found != self.count:
            raise DoesNotFit(f"{self.name}: {self.file} has its text {found} times, the list says {self.count}")
        if self.old == self.new:
            raise DoesNotFit(f"{self.name}: it changes nothing")
        changed = source.replace(self.old, self.new)
        if self.file.endswith(".py"):
            try:
                compile(changed, self.file, "exec")
            except SyntaxError as error:
                raise DoesNotFit(f"{self.name}: {self.file} is no Python with it: {error.msg}") from None
        return changed


def planted(folder: Path = LISTS) -> list[Mutant]:
    """Return the whole list, in the order of its files."""
    found = [
        Mutant(**entry)
        for path in sorted(folder.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutants"]
    ]
    names = [mutant.name for mutant in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of mutants must differ: {', '.join(twice)}")
    wrong = sorted(mutant.name for mutant in found if mutant.kind not in KINDS)
    if wrong:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}: {', '.join(wrong)}")
    return found


def package_of(file: str) -> str:
    """Return the package below dpstats that a file is in; "" for the files beside the packages."""
    parts = PurePosixPath(file).parts
    return parts[1] if len(parts) > 2 else ""


def misfits(mutants: list[Mutant], root: Path) -> list[str]:
    """Return what is wrong with every mutant that does not fit the code below ``root``."""
    wrong = []
    for mutant in mutants:
        path = root / mutant.file
        try:
            mutant.applied(path.read_text(encoding="utf-8") if path.exists() else "")
        except DoesNotFit as misfit:
            wrong.append(str(misfit))
    return wrong
