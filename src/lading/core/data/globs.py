"""Output globs: which paths of an output are saved (docs/spec/containers, section Globs).

Patterns are bash-globstar style on paths relative to the output directory, element by element:

- `*`, `?` and `[...]` match inside one element; a class is negated by `^` or `!`; a backslash makes
  the next character literal.
- `**` as a whole element matches any number of elements, including none.
- A file is saved when a pattern matches its path. `dir/**` matches everything below `dir`, and
  `dir` itself when it is a directory, never a file of that name.
- A matching directory is saved as such, without its content.
- An invalid pattern matches nothing. No pattern at all matches everything.
- A name of more than 4,096 characters, which no file system allows, is matched by `**` alone.

Matching runs a state machine over the elements of a path; its time is linear in path and patterns,
for any number of stars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from lading.core.errors import Invalid

# Limits of one request, checked by the API (check_globs).
MOST_PATTERNS = 1000
# Characters; also the longest path of Linux (PATH_MAX).
LONGEST_PATTERN = 4096
MOST_CHARACTERS = 65_536
"""Limit for all patterns together. Matching one path takes at most about as many steps as the
patterns have characters.
"""
# Directories whose states are cached; more than a path can have elements.
_MOST_KNOWN = 512


class _Element(msgspec.Struct, frozen=True):
    """One element of a pattern: pieces of fixed lengths, with any characters between them.

    Each piece is searched from left to right and taken at its first occurrence, so a name is read
    once, however many stars there are.
    """

    first: re.Pattern[str]
    first_length: int
    between: tuple[re.Pattern[str], ...] = ()
    last: re.Pattern[str] | None = None
    """None: the element has no star, and `first` is the whole name."""
    last_length: int = 0

    def matches(self, name: str) -> bool:
        """Whether the element matches the whole name."""
        if len(name) > LONGEST_PATTERN:
            return False
        if self.last is None:
            return self.first.fullmatch(name) is not None
        # First and last piece are anchored at the ends; the others are searched between them.
        at, end = self.first_length, len(name) - self.last_length
        if at > end or self.first.match(name) is None or self.last.fullmatch(name, end) is None:
            return False
        for piece in self.between:
            found = piece.search(name, at, end)
            if found is None:
                return False
            at = found.end()
        return True


# The elements of a pattern; None is `**`.
_Pattern = tuple[_Element | None, ...]
# Patterns that can still match, each with the possible numbers of matched elements.
_Alive = list[tuple[_Pattern, frozenset[int]]]


class Globs:
    """A compiled set of patterns; `everything` for an empty set."""

    def __init__(self, patterns: tuple[_Pattern, ...] = (), *, everything: bool = False) -> None:
        self.patterns = patterns
        self.everything = everything
        # Most paths are in a directory that was asked for a moment ago, so its states are kept.
        self._states: dict[str, _Alive] = {}

    def keeps_file(self, path: str) -> bool:
        """Whether the file at `path` is saved."""
        if self.everything:
            return True
        folder, _, name = path.rpartition("/")
        return any(_takes_file(pattern, states, name) for pattern, states in self._alive(folder))

    def keeps_directory(self, path: str) -> bool:
        """Whether the directory at `path` is saved even when it is empty."""
        return self.everything or any(
            len(pattern) in states for pattern, states in self._alive(path)
        )

    def keeps_all_below(self, path: str) -> bool:
        """Whether everything below `path` is certainly saved, so that it need not be examined. ""
        is the whole output.
        """
        return self.everything or any(
            pattern[-1] is None and len(pattern) in states for pattern, states in self._alive(path)
        )

    def may_keep_below(self, path: str) -> bool:
        """Whether anything below the directory `path` could be saved. "" is the whole output."""
        return self.everything or any(
            min(states) < len(pattern) for pattern, states in self._alive(path)
        )

    def _alive(self, folder: str) -> _Alive:
        """States after the elements of a directory. "" is the whole output."""
        known = self._states.get(folder)
        if known is None:
            if len(self._states) >= _MOST_KNOWN:
                self._states.clear()
            known = self._states[folder] = self._step_to(folder)
        return known

    def _step_to(self, folder: str) -> _Alive:
        elements, alive = folder.split("/") if folder else [], self._states.get("")
        if alive is None:
            alive = self._states[""] = [(pattern, _skip(pattern, {0})) for pattern in self.patterns]
        done = ""
        for name in elements:
            done = f"{done}/{name}" if done else name
            reached = self._states.get(done)
            if reached is None:
                stepped = ((pattern, _step(pattern, states, name)) for pattern, states in alive)
                reached = self._states[done] = [pair for pair in stepped if pair[1]]
            alive = reached
        return alive


EVERYTHING: Final = Globs(everything=True)
"""The empty set of patterns, with which everything is saved."""


def compile_globs(patterns: Iterable[str]) -> Globs:
    """Compile patterns. Invalid ones match nothing; an empty set matches everything."""
    listed = list(patterns)
    if not listed:
        return EVERYTHING
    return Globs(tuple(pattern for pattern in map(_compile, listed) if pattern is not None))


def element_matcher(element: str) -> Callable[[str], bool]:
    """Whether a name matches one element of a pattern, without `/` and where `**` is `*`. An
    invalid element matches nothing.
    """
    pieces = _translate(element)
    return (lambda _: False) if pieces is None else _element(pieces).matches


def matches_nothing(pattern: str) -> bool:
    """Whether a pattern is invalid, or no path relative to an output: no file has such a path."""
    return _compile(pattern) is None or not {".", ".."}.isdisjoint(pattern.split("/"))


def relative_pattern(written: str, output_path: str) -> str:
    """The pattern that a person means by `written`: `./a` is `a`, `a/` all below `a`, and an
    absolute path below the output path is relative to that. Raises Invalid for one that can match
    nothing.
    """
    pattern = re.sub(r"/(\.?/)+", "/", written)
    if pattern.startswith("/"):
        below = pattern.removeprefix(output_path.rstrip("/") + "/")
        if below == pattern and pattern != output_path:
            raise Invalid(
                f"{written}: is not below the output path {output_path}, where all patterns are"
            )
        pattern = below if below != pattern else "./"
    pattern = pattern.removeprefix("./") if pattern != "." else ""
    if not pattern or pattern.endswith("/"):
        pattern += "**"
    if matches_nothing(pattern):
        raise Invalid(
            f"{written}: can match nothing: a pattern is a path below the output path, without .. "
            "and with a ] for each ["
        )
    return pattern


def check_globs(patterns: list[str]) -> None:
    """Raise Invalid for more or longer patterns than the limits allow."""
    if len(patterns) > MOST_PATTERNS:
        raise Invalid(
            f"has {len(patterns)} patterns, and {MOST_PATTERNS} are allowed; "
            "`**` matches any directories"
        )
    longest, total = max(map(len, patterns), default=0), sum(map(len, patterns))
    if longest > LONGEST_PATTERN:
        raise Invalid(f"has a pattern of {longest} characters, and {LONGEST_PATTERN} are allowed")
    if total > MOST_CHARACTERS:
        raise Invalid(
            f"has patterns of {total} characters together, and {MOST_CHARACTERS} are allowed"
        )


def _compile(pattern: str) -> _Pattern | None:
    elements: list[_Element | None] = []
    for element in pattern.split("/"):
        if element == "**":
            # "**/**" is the same as "**" and would add states.
            if not (elements and elements[-1] is None):
                elements.append(None)
            continue
        pieces = _translate(element)
        if pieces is None:
            return None
        elements.append(_element(pieces))
    return tuple(elements)


def _element(pieces: list[list[str]]) -> _Element:
    first, *others = [re.compile("".join(piece), re.DOTALL) for piece in pieces]
    if not others:
        return _Element(first, len(pieces[0]))
    between = tuple(
        expression for expression, piece in zip(others[:-1], pieces[1:-1], strict=True) if piece
    )
    return _Element(first, len(pieces[0]), between, others[-1], len(pieces[-1]))


def _translate(element: str) -> list[list[str]] | None:
    """The pieces between the stars of one element: an expression for each character. None when it
    is invalid.
    """
    if not element:
        return None
    pieces: list[list[str]] = [[]]
    at = 0
    while at < len(element):
        char = element[at]
        at += 1
        if char == "*":
            pieces.append([])
        elif char == "?":
            pieces[-1].append(".")
        elif char == "[":
            parsed = _translate_class(element, at)
            if parsed is None:
                return None
            expression, at = parsed
            pieces[-1].append(expression)
        elif char == "\\":
            if at == len(element):
                return None
            pieces[-1].append(re.escape(element[at]))
            at += 1
        else:
            pieces[-1].append(re.escape(char))
    return pieces


def _translate_class(element: str, at: int) -> tuple[str, int] | None:
    """The expression for the class whose `[` precedes `at`, and the position after it."""
    negated = element[at : at + 1] in ("^", "!")
    at += negated
    members: list[str] = []
    while True:
        # A "]" directly after the opening is a literal (glob(7)).
        first = _class_character(element, at, opening=not members)
        if first is None:
            break
        low, at = first
        high = low
        # A "-" at the end of the class is a literal.
        if element[at : at + 1] == "-" and element[at + 1 : at + 2] not in ("", "]"):
            second = _class_character(element, at + 1, opening=False)
            if second is None:
                return None
            high, at = second
        if high < low:
            return None
        members.append(f"{re.escape(low)}-{re.escape(high)}")
    if not members or element[at : at + 1] != "]":
        return None
    return f"[{'^' if negated else ''}{''.join(members)}]", at + 1


def _class_character(element: str, at: int, *, opening: bool) -> tuple[str, int] | None:
    """The literal character of a class at `at` and the position after it; None at the end of the
    class or of the text.
    """
    char = element[at : at + 1]
    if not char or (char == "]" and not opening):
        return None
    if char != "\\":
        return char, at + 1
    return (element[at + 1], at + 2) if at + 1 < len(element) else None


def _takes_file(pattern: _Pattern, states: frozenset[int], name: str) -> bool:
    # A trailing `**` stands for at least one element below, or for a directory itself.
    if pattern[-1] is None:
        return max(states) >= len(pattern) - 1
    element = pattern[-1]
    return len(pattern) - 1 in states and element.matches(name)


def _step(pattern: _Pattern, states: frozenset[int], name: str) -> frozenset[int]:
    """The states after one more element of a path."""
    reached = set()
    for state in states:
        if state == len(pattern):
            continue
        element = pattern[state]
        if element is None:
            # `**` takes this element and stays.
            reached.add(state)
        elif element.matches(name):
            reached.add(state + 1)
    return _skip(pattern, reached)


def _skip(pattern: _Pattern, states: set[int]) -> frozenset[int]:
    """Add the states after `**`, which may match nothing."""
    return frozenset(
        states | {state + 1 for state in states if state < len(pattern) and pattern[state] is None}
    )
