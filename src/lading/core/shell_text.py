"""Quoting of a shell at each position of a script, and the scripts in a command.

`quoting_of` reads a script as a POSIX shell and bash do: quotes, command substitutions, arithmetic,
comments and here-documents. It does not parse the language: in a construct that it misreads, a
variable that is put there is quoted once too often or not at all. Its value is never read as code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "rbash"})
# Options of shells with a value in the next word.
_VALUED: Final = frozenset({"--rcfile", "--init-file"})
# Programs that take a program text, the letters of the options that precede it, and its remedy.
_INTERPRETERS: Final = (
    (re.compile(r"(python|pypy)[\d.]*"), "c"),
    (re.compile(r"(perl|ruby)[\d.]*|node|nodejs|bun|Rscript|R|julia|lua[\d.]*"), "eEp"),
    (re.compile(r"(t?csh|fish|xonsh|nu|pwsh)"), "c"),
)


# Programs whose first argument that is no option is a program text, the options with a value in the
# next word, and those whose value is the program text or a file of it.
_FILTERS: Final = (
    (re.compile(r"[gmn]?awk"), frozenset({"-F", "-v"}), frozenset({"-e", "-f"})),
    (re.compile(r"g?sed"), frozenset({"-l"}), frozenset({"-e", "-f"})),
)
# What hands a text of a script to a further reader of code.
_HANDS_ON: Final = re.compile(
    r"(?<![\w./-])(?:[\w./-]*/)?(?:"
    r"eval|(?:ba|da|a|k|mk|z|rba|tc|c|fi)?sh\s+(?:-\S+\s+)*-\w*c|[gmn]?awk|g?sed|ssh|parallel|su"
    r"|(?:python|pypy|lua)[\d.]*\s+-\w*[ce]|(?:perl|ruby|node|nodejs|bun|Rscript|julia)\s+-\w*[eEp]"
    r")(?![\w-])"
)
_EVAL: Final = re.compile(r"(?<![\w./-])eval(?![\w-])")
# Places in which bash evaluates a word as an arithmetic expression: before and after it.
_BEFORE_NUMBER: Final = re.compile(
    r"""(?:-(?:eq|ne|lt|le|gt|ge)\s+["']?|\w\[["']?|\blet\s[^;&|\n]*)$"""
)
_AFTER_NUMBER: Final = re.compile(r"""["']?\s+-(?:eq|ne|lt|le|gt|ge)\s""")
_HERE = re.compile(r"<<(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_WORD_STARTS: Final = frozenset(" \t\n;&|()`")


class Quoting(StrEnum):
    """How a shell reads a character of a script."""

    BARE = "bare"
    SINGLE = "single"
    DOLLAR_SINGLE = "dollar-single"
    DOUBLE = "double"
    ARITHMETIC = "arithmetic"
    COMMENT = "comment"
    HERE_DOCUMENT = "here-document"
    QUOTED_HERE_DOCUMENT = "quoted here-document"


def scripts(command: Sequence[str]) -> frozenset[int]:
    """Positions of the words that a shell of the command reads as a script: the one after `-c`."""
    positions = set()
    for position, word in enumerate(command):
        if word.rpartition("/")[2] in _SHELLS:
            script = _after_options(command, position + 1)
            if script is not None:
                positions.add(script)
    return frozenset(positions)


def programs(command: Sequence[str]) -> dict[int, str]:
    """Positions of the words that another interpreter reads as a program, with its name."""
    names: dict[int, str] = {}
    for position, word in enumerate(command):
        name = word.rpartition("/")[2]
        for pattern, letters in _INTERPRETERS:
            if not pattern.fullmatch(name):
                continue
            for index in range(position + 1, len(command) - 1):
                option = command[index]
                if not option.startswith("-") or option == "--":
                    break
                if not option.startswith("--") and option[-1] in letters:
                    names[index + 1] = name
    return names


def filter_programs(command: Sequence[str]) -> dict[int, str]:
    """Positions of the words that awk or sed reads as a program, with its name."""
    names: dict[int, str] = {}
    for position, word in enumerate(command):
        name = word.rpartition("/")[2]
        for pattern, valued, texts in _FILTERS:
            if pattern.fullmatch(name):
                names |= dict.fromkeys(_texts_of(command, position + 1, valued, texts), name)
    return names


def _texts_of(
    command: Sequence[str], position: int, valued: frozenset[str], texts: frozenset[str]
) -> list[int]:
    """The positions of program texts after the name of a filter."""
    positions: list[int] = []
    while position < len(command) and command[position].startswith("-"):
        option = command[position]
        if option in texts:
            positions.append(position + 1)
        elif option.startswith(("--expression=", "-e")):
            positions.append(position)
        position += 2 if option in texts or option in valued else 1
        if option == "--":
            break
    if not positions and position < len(command):
        positions.append(position)
    return positions


def hands_on(script: str, quoting: Quoting) -> bool:
    """Whether a script may hand a text on, which it quotes so, to a further reader of code."""
    if quoting is Quoting.BARE:
        return _EVAL.search(script) is not None
    return _HANDS_ON.search(script) is not None


def is_evaluated(script: str, start: int, end: int) -> bool:
    """Whether bash evaluates the bare word at this place of a script as a number."""
    return bool(_BEFORE_NUMBER.search(script[:start]) or _AFTER_NUMBER.match(script[end:]))


def _after_options(command: Sequence[str], position: int) -> int | None:
    """The position of the script after the options of a shell; None: no `-c`."""
    has_script = False
    while position < len(command) and command[position][:1] in ("-", "+"):
        option = command[position]
        position += 1
        if option in ("-", "--"):
            break
        if option.startswith("--"):
            position += option in _VALUED
            continue
        has_script = has_script or (option[0] == "-" and "c" in option)
        # `-o pipefail`, `-euo pipefail`, `-O extglob`.
        position += option[-1] in "oO"
    return position if has_script and position < len(command) else None


@dataclass(slots=True)
class _Reader:
    """A script that is being read."""

    script: str
    quotings: list[Quoting] = field(default_factory=list)
    # Open constructs: how each is read, and the text that ends it.
    stack: list[tuple[Quoting, str]] = field(default_factory=lambda: [(Quoting.BARE, "")])
    # Here-documents that begin after this line: delimiter, quoted, tabs removed.
    pending: list[tuple[str, bool, bool]] = field(default_factory=list)

    def read(self) -> list[Quoting]:
        while len(self.quotings) < len(self.script):
            _READERS[self.stack[-1][0]](self)
        return self.quotings

    @property
    def at(self) -> int:
        return len(self.quotings)

    def take(self, length: int, quoting: Quoting | None = None) -> None:
        """Go on by so many characters, at most to the end."""
        length = min(length, len(self.script) - self.at)
        self.quotings += [quoting or self.stack[-1][0]] * length

    def open(self, opener: str, quoting: Quoting, closer: str) -> None:
        self.take(len(opener))
        self.stack.append((quoting, closer))

    def is_closed(self) -> bool:
        """Take the end of the innermost construct, if it is here."""
        closer = self.stack[-1][1]
        if not closer or not self.script.startswith(closer, self.at):
            return False
        self.take(len(closer))
        self.stack.pop()
        return True


# What opens a construct in a bare text, the longest first.
_OPENERS: Final[tuple[tuple[str, Quoting, str], ...]] = (
    ("$((", Quoting.ARITHMETIC, "))"),
    ("$[", Quoting.ARITHMETIC, "]"),
    ("${", Quoting.ARITHMETIC, "}"),
    ("$(", Quoting.BARE, ")"),
    ("$'", Quoting.DOLLAR_SINGLE, "'"),
    ("((", Quoting.ARITHMETIC, "))"),
    ("(", Quoting.BARE, ")"),
    ("`", Quoting.BARE, "`"),
    ("'", Quoting.SINGLE, "'"),
    ('"', Quoting.DOUBLE, '"'),
)
_EXPANSIONS: Final = tuple(
    opener for opener in _OPENERS if opener[0][0] in "$`" and opener[0] != "$'"
)


def _opens(reader: _Reader, openers: Sequence[tuple[str, Quoting, str]]) -> bool:
    for opener, quoting, closer in openers:
        if reader.script.startswith(opener, reader.at):
            reader.open(opener, quoting, closer)
            return True
    return False


def _bare(reader: _Reader) -> None:
    script, at = reader.script, reader.at
    if script[at] == "\\":
        reader.take(2)
    elif reader.is_closed() or _opens(reader, _OPENERS):
        return
    elif script[at] == "#" and (at == 0 or script[at - 1] in _WORD_STARTS):
        end = script.find("\n", at)
        reader.take((end if end >= 0 else len(script)) - at, Quoting.COMMENT)
    elif script.startswith("<<<", at):
        reader.take(3)
    elif here := _HERE.match(script, at):
        delimiter = re.sub(r"\\(.)|['\"]", r"\1", here[2])
        reader.pending.append((delimiter, delimiter != here[2], bool(here[1])))
        reader.take(len(here[0]))
    elif script[at] == "\n":
        reader.take(1)
        _here_documents(reader)
    else:
        reader.take(1)


def _here_documents(reader: _Reader) -> None:
    """Take the here-documents of the line that has ended."""
    for delimiter, is_quoted, is_indented in reader.pending:
        tabs = r"\t*" if is_indented else ""
        end = re.compile(rf"^{tabs}{re.escape(delimiter)}$", re.MULTILINE)
        match = end.search(reader.script, reader.at)
        length = (match.end() if match else len(reader.script)) - reader.at
        quoting = Quoting.QUOTED_HERE_DOCUMENT if is_quoted else Quoting.HERE_DOCUMENT
        reader.take(length, quoting)
        reader.take(1)
    reader.pending.clear()


def _single(reader: _Reader) -> None:
    if not reader.is_closed():
        reader.take(1)


def _dollar_single(reader: _Reader) -> None:
    if not reader.is_closed():
        reader.take(2 if reader.script[reader.at] == "\\" else 1)


def _expanded(reader: _Reader) -> None:
    """A text in which only expansions and backslashes mean something."""
    if reader.script[reader.at] == "\\":
        reader.take(2)
    elif not reader.is_closed() and not _opens(reader, _EXPANSIONS):
        reader.take(1)


def _arithmetic(reader: _Reader) -> None:
    if reader.is_closed():
        return
    if reader.script[reader.at] == "(":
        # Parentheses of the expression itself.
        reader.open("(", Quoting.ARITHMETIC, ")")
    else:
        _expanded(reader)


_READERS: Final = {
    Quoting.BARE: _bare,
    Quoting.SINGLE: _single,
    Quoting.DOLLAR_SINGLE: _dollar_single,
    Quoting.DOUBLE: _expanded,
    Quoting.ARITHMETIC: _arithmetic,
}


def quoting_of(script: str) -> Sequence[Quoting]:
    """How a shell reads each character of a script."""
    return _Reader(script).read()
