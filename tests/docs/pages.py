"""Console blocks of the documentation: where they are, what they run, and why some are not run.

A block is fenced as `console`. Lines after a prompt (`$ ` or `# `) are commands, with what belongs
to them: lines after a backslash, here-documents, open quotes. The other lines are the output of the
command before them. A comment directly above a block marks it: `<!-- not run: REASON -->`, `<!--
long -->` for a block that takes minutes, `<!-- with NAME -->` for one that is played at another
site than the rest of the page, `<!-- with NAME, long -->`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_FENCE: Final = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_MARK: Final = re.compile(
    r"<!--\s*(?:not run:(?P<reason>(?:(?!-->).)*)|"
    r"(?:with (?P<site>\w+))?,?\s*(?P<long>long)?\s*)-->\s*\Z",
    re.DOTALL,
)
_PROMPT: Final = re.compile(r"(?:\$|#) (?=\S)")
_HERE: Final = re.compile(r"<<-?\s*['\"]?(\w+)")
_SHELLS: Final = ("sh", "bash", "shell")


@dataclass(frozen=True)
class Step:
    """One command and the output that the page shows for it, "" for none; `line` is its line in the
    page.
    """

    line: int
    command: str
    output: str


@dataclass(frozen=True)
class Block:
    """A fenced block. `reason` says why it is not run; `is_long`: it takes minutes."""

    page: str
    line: int
    language: str
    text: str
    reason: str = ""
    is_long: bool = False
    site: str = ""

    @property
    def place(self) -> str:
        """The name of the site where it is played."""
        return f"{self.page}#{self.site}" if self.site else self.page

    @property
    def has_commands(self) -> bool:
        """Whether it shows commands at a prompt, or is a shell script."""
        return self.language in (*_SHELLS, "console") or bool(
            re.search(r"^\$ \S", self.text, re.MULTILINE)
        )

    @property
    def steps(self) -> list[Step]:
        """The commands in their order."""
        return list(_steps(self.text.splitlines(), self.line + 1))


def pages() -> list[str]:
    """README and every page of the documentation, relative to the repository."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found if "_build" not in path.parts)


def played() -> list[Block]:
    """All blocks that are played."""
    return [one for page in pages() for one in blocks(page) if one.has_commands and not one.reason]


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The fenced blocks of a page."""
    return list(_blocks(page, (ROOT / page).read_text() if text is None else text))


def _blocks(page: str, text: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        mark = _MARK.search(text[: found.start()])
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start()) + 1,
            language=found[2].strip(),
            text=found[3],
            reason=" ".join((mark["reason"] or "").split()) if mark else "",
            is_long=bool(mark and mark["long"]),
            site=(mark["site"] or "") if mark else "",
        )


def _steps(lines: list[str], first: int) -> Iterator[Step]:
    at = 0
    while at < len(lines):
        began = at
        if not _PROMPT.match(lines[at]):
            raise ValueError(f"line {first + at}: output stands before the first command")
        command, at = _command(lines, at)
        output: list[str] = []
        while at < len(lines) and not _PROMPT.match(lines[at]):
            output.append(lines[at])
            at += 1
        yield Step(first + began, command, "\n".join(output).strip())


def _command(lines: list[str], at: int) -> tuple[str, int]:
    """A whole command that begins in a line, and the line after it."""
    text = _PROMPT.sub("", lines[at], count=1)
    at += 1
    if here := _HERE.search(text):
        while at < len(lines):
            text, at = f"{text}\n{lines[at]}", at + 1
            if lines[at - 1] == here[1]:
                break
    while at < len(lines) and (text.endswith("\\") or not _is_whole(text)):
        text, at = f"{text}\n{lines[at]}", at + 1
    return text, at


def _is_whole(text: str) -> bool:
    if text.count("'") % 2 == 0 and text.count('"') % 2 == 0:
        return True
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return "unexpected EOF" not in done.stderr
