"""Plans for `lading-start`, written apart from `lading.supervisor.starter.plan`."""

from __future__ import annotations

from collections.abc import Iterable

from lading.supervisor.starter.plan import MARK

# Kinds of fields, and how many records there may be, by letter (plan.c).
ROWS = {
    "R": ("p", 0, 1), "H": ("s", 0, 1), "M": ("pssn", 0, 32), "B": ("ppn", 0, 65536),
    "D": ("psnnnii", 0, 1024), "X": ("p", 0, 256), "O": ("p", 0, 256), "L": ("nn", 0, 32),
    "U": ("ii", 1, 1), "S": ("i", 0, 1024), "C": ("n", 1, 1),
    "F": ("r", 1, 1), "A": ("s", 0, 10**6), "E": ("s", 0, 10**6), "W": ("p", 1, 1),
    "I": ("ss", 0, 1), "V": ("", 0, 1), "J": ("p", 0, 32), "G": ("n", 0, 1), "N": ("p", 0, 1),
    "K": ("", 0, 1), "P": ("n", 0, 1), "T": ("n", 0, 1),
}  # fmt: skip
Record = tuple[str, list[bytes]]


def pack(letter: bytes, content: bytes) -> bytes:
    return letter + len(content).to_bytes(4, "little") + content


def make_plan(records: Iterable[Record]) -> bytes:
    made = [MARK]
    for letter, values in records:
        is_raw = ROWS[letter][0] == "r"
        made.append(
            pack(letter.encode(), values[0] if is_raw else b"".join(v + b"\0" for v in values))
        )
    return b"".join(made)
