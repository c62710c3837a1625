"""Whether a command printed what a page shows, but for what differs from run to run.

Identifiers, hashes, secrets, times, durations, sizes and fractions may be others; `...` and `…`
stand for any text; white space is not compared. The same identifier in a page is the same one in a
run: it is bound when it is first printed, and replaced in later commands and outputs.
"""

from __future__ import annotations

import re
from typing import Final

_ID: Final = r"[a-z0-9]{5}-[a-z0-9]{5}-[a-z0-9]{15}"
_KINDS: Final = (
    ("token", rf"v2/{_ID}/[A-Za-z0-9]+(?:\.\.\.)?", rf"v2/{_ID}/[A-Za-z0-9]+"),
    ("uuid", _ID, _ID),
    ("hash", r"[0-9a-f]{32}\+\d+", r"[0-9a-f]{32}\+\d+"),
    ("hex", r"\b[0-9a-f]{12,64}\b", r"[0-9a-f]{5,64}"),
    ("machine", r"\bvm-[0-9a-f]{8}\b", r"vm-[0-9a-f]{8}"),
)
"""Bound: the name of a kind, its form in a page, and its form in a run."""
_UNIT: Final = r"(?:B|KiB|MiB|GiB|TiB)"
_TIME: Final = r"(?:ms|s|min|h|d)"
_FREE: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?", r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?"),
    (r"\b\d{4}-\d\d-\d\d\b", r"\d{4}-\d\d-\d\d"),
    (rf"\b\d+(?:\.\d+)? {_UNIT}(?![\w])", rf"\d+(?:\.\d+)? {_UNIT}"),
    (
        rf"\b\d+(?:\.\d+)? {_TIME}(?![\w])(?: \d+ {_TIME}(?![\w]))?",
        rf"\d+(?:\.\d+)? {_TIME}(?: \d+ {_TIME})?",
    ),
    (r"\b\d+ %", r"\d+ %"),
    (r"(?<![\d.])\d+\.\d+(?![\d.])", r"\d+(?:\.\d+)?(?:e-?\d+)?"),
    (r"\.\.\.|…", r".*?"),
)
"""Not bound: the form in a page, and in a run."""
_REQUEST: Final = re.compile(r" \(req-[a-z0-9]{20}\)")
"""The id of a call, which errors of the API end with."""
_PARTS: Final = [*(shape for _, shape, _ in _KINDS), *(shape for shape, _ in _FREE)]
_ANY: Final = re.compile("|".join(f"(?P<p{number}>{shape})" for number, shape in enumerate(_PARTS)))


class Bindings:
    """What the identifiers of a page are called in a run."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def command(self, text: str) -> str:
        """A command of the page as it is run. Raises ValueError for an identifier that nothing
        printed.
        """
        for shown, name in sorted(self.known.items(), key=lambda one: -len(one[0])):
            text = text.replace(shown, name)
        for kind, shape, _ in _KINDS[1:3]:
            for found in re.findall(shape, text):
                if found not in self.known.values():
                    raise ValueError(f"{found}: a {kind} that no command of the page has printed")
        return text

    def match(self, shown: str, printed: str) -> bool:
        """Whether the output is that of the page; binds its identifiers."""
        pattern, names = self._pattern(shown)
        found = re.fullmatch(pattern, _flat(printed), re.DOTALL)
        if found is None:
            return False
        for text, name in names.items():
            self.known[text] = found[name]
        return True

    def _pattern(self, shown: str) -> tuple[str, dict[str, str]]:
        flat, pieces, names, at = _flat(shown), list[str](), dict[str, str](), 0
        for found in _ANY.finditer(flat):
            pieces.append(_literal(flat[at : found.start()]))
            at = found.end()
            number, text = int((found.lastgroup or "p0")[1:]), found[0]
            if number >= len(_KINDS):
                pieces.append(_FREE[number - len(_KINDS)][1])
            elif text in self.known:
                pieces.append(re.escape(self.known[text]))
            elif text in names:
                pieces.append(f"(?P={names[text]})")
            else:
                names[text] = f"n{len(names)}"
                pieces.append(f"(?P<{names[text]}>{_KINDS[number][2]})")
        pieces.append(_literal(flat[at:]))
        return re.sub(r" ?\.\*\?(?: ?\.\*\?)* ?", r".*?", "".join(pieces)), names


def _literal(text: str) -> str:
    return re.escape(text).replace(r"\ ", " ")


def _flat(text: str) -> str:
    return " ".join(_REQUEST.sub("", text).split())
