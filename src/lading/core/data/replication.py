"""Which volumes a block goes to (docs/spec/api, section Blocks, storage classes and replicas).

A client wishes for a number of copies in each of some storage classes. A volume stands for `copies`
copies (None: for as many as are wished for), in each of its classes. Volumes that hold the block
already come first; then those that do not fail, in an order drawn for each block by its hash, a
volume's chance being its share of the free room: so volumes fill evenly, and every server draws the
same order. Copies on one device count once.

Source of the draw: weighted rendezvous hashing, score = -weight / ln(u), u from the hash of block
and volume.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

_SPAN = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A volume as seen when a block is to be kept: `free` bytes are left, `holds` when the block is
    there.
    """

    uuid: str
    device: str = ""
    copies: int | None = 1
    classes: frozenset[str] = frozenset({"default"})
    free: int = 1
    holds: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Copies that are wished for in each of the classes."""

    copies: int = 1
    classes: tuple[str, ...] = ("default",)


@dataclass(frozen=True, slots=True)
class Tally:
    """What is kept by now: the devices, the copies in all, the copies in each class."""

    devices: frozenset[str] = frozenset()
    copies: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)

    def with_copy(self, place: Place, wish: Wish) -> Tally:
        """After the block was kept at a place; unchanged when the device has it already."""
        device = place.device or place.uuid
        if device in self.devices:
            return self
        more = wish.copies if place.copies is None else place.copies
        counts = dict(self.classes) | {
            name: self.classes.get(name, 0) + more for name in place.classes
        }
        return Tally(self.devices | {device}, self.copies + more, counts)

    def lacks(self, wish: Wish) -> tuple[str, ...]:
        """The classes in which copies are still wished for."""
        return tuple(name for name in wish.classes if self.classes.get(name, 0) < wish.copies)


def order(places: Iterable[Place], hash: str) -> list[Place]:
    """The places in the order in which the block should be kept there."""
    return sorted(
        places, key=lambda place: (not place.holds, place.fails, -_score(place, hash), place.uuid)
    )


def next_wave(ordered: Sequence[Place], tally: Tally, wish: Wish) -> list[Place]:
    """The first places that together fulfil what is lacking, if they can; nothing when nothing more
    would help.
    """
    wave: list[Place] = []
    for place in ordered:
        lacking = tally.lacks(wish)
        if not lacking:
            break
        after = tally.with_copy(place, wish)
        if after is not tally and any(name in place.classes for name in lacking):
            wave.append(place)
            tally = after
    return wave


def _score(place: Place, hash: str) -> float:
    drawn = hashlib.md5(f"{hash}{place.uuid}".encode(), usedforsecurity=False).digest()
    share = (int.from_bytes(drawn[:8], "big") + 0.5) / _SPAN
    return -max(place.free, 1) / math.log(share)
