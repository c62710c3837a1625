"""Texts that a user has put into fields, and the search for them in answers to others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

# Letters and digits only: no encoding of HTML, JSON or addresses changes them.
_CANARY = re.compile(rb"cnry[0-9]{4}zq", re.IGNORECASE)
_UUID = re.compile(rb"zzzzz-[0-9a-z]{5}-[0-9a-z]{15}")
_HASH = re.compile(rb"[0-9a-f]{32}")


@dataclass(slots=True)
class Canaries:
    """`labels` are the fields by the text in them; `names` the uuids and hashes of hidden things,
    with their labels.
    """

    labels: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def text(self, label: str) -> str:
        """A new text for the field that `label` names."""
        canary = f"cnry{len(self.labels):04}zq"
        self.labels[canary] = label
        return canary

    def hide(self, names: Iterable[str], label: str) -> None:
        """Add uuids or hashes that nobody else may learn."""
        self.names |= dict.fromkeys(names, label)

    def find(self, answer: bytes, *, sent: bytes = b"") -> set[str]:
        """The labels of all canaries in an answer, but for those that the call has `sent`."""
        return {
            self.labels.get(text) or self.names[text]
            for text in self.texts(answer) - self.texts(sent)
        }

    def texts(self, answer: bytes) -> set[str]:
        """All canaries in an answer."""
        found = {one.decode().lower() for one in _CANARY.findall(answer)}
        named = {one.decode() for one in _UUID.findall(answer) + _HASH.findall(answer)}
        return (found & self.labels.keys()) | (named & self.names.keys())

    def within(self, values: Collection[object]) -> bool:
        """Whether a row of a database has one of them."""
        return any(
            self.texts(value if isinstance(value, bytes) else str(value).encode())
            for value in values
            if isinstance(value, str | bytes)
        )
