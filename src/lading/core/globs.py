"""Output globs: which paths of an output are kept (dispatch-contract A.14, api-contract 3.3).

Patterns are bash-globstar style on paths relative to the output directory, element by element:

- `*`, `?` and `[...]` match inside one element; a class is negated by `^` or `!`; a backslash takes the next
  character as it is.
- `**` as a whole element matches any number of elements, none included.
- A file is kept when a pattern matches its path. `dir/**` matches what is below `dir`, and `dir` itself when it is a
  directory, never a file of that name.
- A directory that matches is kept as such, without its content.
- An invalid pattern matches nothing. No pattern at all keeps everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_Element = re.Pattern[str] | None
"""What one element of a pattern matches; None is `**`."""


@dataclass(frozen=True, slots=True)
class Globs:
    """A compiled set of patterns; `everything` when there was none."""

    patterns: tuple[tuple[_Element, ...], ...] = ()
    everything: bool = False

    def keeps_file(self, path: str) -> bool:
        """Whether the file at `path` is kept."""
        elements = path.split("/")
        return self.everything or any(_matches(one, elements, directory=False) for one in self.patterns)

    def keeps_directory(self, path: str) -> bool:
        """Whether the directory at `path` is kept even when it is empty."""
        elements = path.split("/")
        return self.everything or any(_matches(one, elements, directory=True) for one in self.patterns)

    def keeps_all_below(self, path: str) -> bool:
        """Whether everything below `path` is surely kept, so that one need not look. "" is the whole output."""
        elements = path.split("/") if path else []
        return self.everything or any(
            one[-1] is None and _matches(one, elements, directory=True) for one in self.patterns
        )

    def may_keep_below(self, path: str) -> bool:
        """Whether anything below the directory `path` could be kept. "" is the whole output."""
        elements = path.split("/") if path else []
        return self.everything or any(_reaches_below(one, elements) for one in self.patterns)


def compile_globs(patterns: Iterable[str]) -> Globs:
    """The patterns in usable form. Invalid ones match nothing; none at all match everything."""
    given = list(patterns)
    if not given:
        return Globs(everything=True)
    return Globs(tuple(one for one in map(_compile, given) if one is not None))


def _compile(pattern: str) -> tuple[_Element, ...] | None:
    elements: list[_Element] = []
    for text in pattern.split("/"):
        if text == "**":
            if not (elements and elements[-1] is None):
                elements.append(None)
            continue
        expression = _translate(text)
        if expression is None:
            return None
        elements.append(re.compile(expression, re.DOTALL))
    return tuple(elements)


def _translate(text: str) -> str | None:
    """The regular expression for one element, or None when it is invalid."""
    if not text:
        return None
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            parts.append(".*")
        elif char == "?":
            parts.append(".")
        elif char == "[":
            found = _translate_class(text, at)
            if found is None:
                return None
            expression, at = found
            parts.append(expression)
        elif char == "\\":
            if at == len(text):
                return None
            parts.append(re.escape(text[at]))
            at += 1
        else:
            parts.append(re.escape(char))
    return "".join(parts)


def _translate_class(text: str, at: int) -> tuple[str, int] | None:
    """The expression for the class whose `[` stands before `at`, and where it ends."""
    negated = text[at : at + 1] in ("^", "!")
    at += negated
    members: list[str] = []
    while True:
        first = _class_character(text, at, opening=not members)
        if first is None:
            break
        low, at = first
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            second = _class_character(text, at + 1, opening=False)
            if second is None:
                return None
            high, at = second
        if high < low:
            return None
        members.append(f"{re.escape(low)}-{re.escape(high)}")
    if not members or text[at : at + 1] != "]":
        return None
    return f"[{'^' if negated else ''}{''.join(members)}]", at + 1


def _class_character(text: str, at: int, *, opening: bool) -> tuple[str, int] | None:
    """The literal character of a class at `at` and what follows it; None at the end of the class or of the text."""
    char = text[at : at + 1]
    if not char or (char == "]" and not opening):
        return None
    if char != "\\":
        return char, at + 1
    return (text[at + 1], at + 2) if at + 1 < len(text) else None


def _matches(pattern: tuple[_Element, ...], elements: list[str], *, directory: bool) -> bool:
    # A trailing `**` stands for at least one element below, or for a directory itself.
    if pattern[-1] is None and not directory:
        return any(_final(state, pattern) for state in _states(pattern, elements[:-1]))
    return len(pattern) in _states(pattern, elements)


def _final(state: int, pattern: tuple[_Element, ...]) -> bool:
    return state >= len(pattern) - 1


def _reaches_below(pattern: tuple[_Element, ...], elements: list[str]) -> bool:
    return any(state < len(pattern) for state in _states(pattern, elements))


def _states(pattern: tuple[_Element, ...], elements: list[str]) -> set[int]:
    """How many elements of the pattern may be used up once all of `elements` are matched (all possibilities)."""
    states = _skip(pattern, {0})
    for element in elements:
        reached = set()
        for state in states:
            if state == len(pattern):
                continue
            matcher = pattern[state]
            if matcher is None:
                reached.add(state)
            elif matcher.fullmatch(element):
                reached.add(state + 1)
        states = _skip(pattern, reached)
    return states


def _skip(pattern: tuple[_Element, ...], states: set[int]) -> set[int]:
    """`**` may match nothing: with each state before one, the state after it."""
    return states | {state + 1 for state in states if state < len(pattern) and pattern[state] is None}
