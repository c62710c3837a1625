"""Rules for the members of a layer archive, beyond their names (`core.images`).

Images come from many builders: a Mac writes attributes that Linux does not have, debootstrap makes
device nodes, tar adds a label. None of these is a reason to refuse an image: such an entry is left
out, and told. Every container has a /dev of its own, and no process of a container may open another
device.

A layer of more than `MOST_STACKED` layers cannot be mounted as one of them: the kernel takes 500,
the Docker daemon 125, and the table of a mount has one page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

MOST_STACKED: Final = 100
"""Layers of one mount, and of an image for a daemon."""
LABEL: Final = b"V"
"""Type of the label of a volume, with which GNU tar begins an archive; it is no file."""
_ANY = "any"
# Characters of a name in a message.
_SHOWN = 100
# null, zero, full, random, urandom; tty, console, ptmx.
_DEVICES: Final = frozenset({(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)})
_NAMESPACES = ("user.", "security.", "trusted.", "system.posix_acl_")
_OVERLAY = ("trusted.overlay.", "user.overlay.")


class Attribute(Enum):
    """Treatment of an extended attribute of a layer member."""

    SET = auto()
    LEFT_OUT = auto()
    """Linux has no such attribute."""
    REFUSED = auto()
    """Overlayfs reads it, so it could show files that no layer has."""


_FAULTS: Final = {
    Attribute.SET: "",
    Attribute.LEFT_OUT: "which Linux does not know",
    Attribute.REFUSED: "which only overlayfs may set",
}


def shown_name(name: str) -> str:
    """The name of a layer member as a message has it."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")


def attribute(name: str) -> Attribute:
    """Treatment of the extended attribute `name`."""
    if name.startswith(_OVERLAY):
        return Attribute.REFUSED
    return Attribute.SET if name.startswith(_NAMESPACES) else Attribute.LEFT_OUT


def attribute_fault(name: str) -> str:
    """Reason why a layer member may not have the extended attribute `name`, or ""."""
    return _FAULTS[attribute(name)]


def is_kept_device(*, is_character: bool, number: tuple[int, int]) -> bool:
    """Whether a layer may have this device: one that every container has."""
    return is_character and number in _DEVICES


def device_left_out(shown: str, *, is_character: bool, number: tuple[int, int]) -> str:
    """Remark about a device that is left out; `shown` is its name."""
    kind = "character" if is_character else "block"
    return f"{shown} is left out: the {kind} device {number[0]}:{number[1]} is not for containers"


def attribute_left_out(shown: str, name: str, reason: str) -> str:
    """Remark about an attribute that is left out; `shown` is the name of its file."""
    return f"the attribute {name!r} of {shown} is left out: {reason}"


def place_of_layer(ids: Sequence[str], number: int, *, is_bound: bool) -> str:
    """Name of the directory of layer `number` of an image with the layers `ids` (`sha256:<hex>`).

    A layer that is bound to those below it, by a whiteout or a link to one of their files, has a
    name that they are part of.
    """
    own = ids[number].removeprefix("sha256:")
    if not is_bound:
        return f"{own}.{_ANY}"
    return f"{own}.{hashlib.sha256(' '.join(ids[:number]).encode()).hexdigest()}"


def merged_below(layers: int) -> int:
    """Number of the lowest layers of an image that are unpacked into one directory; 0 when all of
    them can be mounted.
    """
    return layers - MOST_STACKED + 1 if layers > MOST_STACKED else 0
