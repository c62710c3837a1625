"""Reads the headers of an image's layers: entries that are left out, and forms that daemons refuse.

Docker and podman unpack a layer for itself, by their own rules: they know no hard link to a file of
a lower layer, take a whiteout for one of the layer's own directory too, and show one that hides
nothing. Lading unpacks all of these (`supervisor.inputs.layer_writer`); a daemon gets another image
with equal files.

The headers are read twice: first for whiteouts and links, then for the entries that they name. So
the memory that it takes does not grow with the number of files.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from lading.core.errors import ExecutionError, Failure
from lading.core.image_layers import (
    LABEL,
    MOST_STACKED,
    Attribute,
    attribute,
    attribute_fault,
    attribute_left_out,
    device_left_out,
    is_kept_device,
    shown_name,
)
from lading.core.images import member_path, whiteout
from lading.core.remarks import RemarkList, Remarks

XATTR: Final = "SCHILY.xattr."
"""Prefix of extended attributes in pax headers."""
# Bytes of the attributes of a file that every file system stores.
_LARGE_ATTRIBUTES = 2000
# Whiteouts and links of one image that are looked up; an image with more counts as unfit.
_MOST_NAMES = 200_000

_TYPES = (
    *tarfile.REGULAR_TYPES,
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
)

Members = AbstractContextManager[Iterable[tarfile.TarInfo]]
"""The members of a layer, open while they are read."""


class ScanResult(msgspec.Struct, frozen=True):
    """Facts from the headers of an image's layers."""

    left_out: Remarks = Remarks()
    """Remarks about devices and attributes that no container gets."""
    unfit: str = ""
    """Why a daemon cannot use the layers as they are, or ""."""


class _Link(msgspec.Struct):
    """A hard link, and where its target was met."""

    name: str
    is_own: bool = False
    is_lower: bool = False


class LayerScan:
    """Scan of all layers of an image, lowest first."""

    def __init__(self, *, most_names: int = _MOST_NAMES) -> None:
        self._most_names = most_names
        self._remarks = RemarkList()
        self._unfit = ""
        # By path, and the number of the layer: a whiteout, and whether a lower layer has the path;
        # the first link to it.
        self._whiteouts: dict[str, dict[int, bool]] = {}
        self._links: dict[str, dict[int, _Link]] = {}
        self._above_links: set[str] = set()
        self._is_over_links = False
        self._count = 0

    def run(self, layers: Sequence[Callable[[], Members]]) -> ScanResult:
        """Read all layers. Raises ExecutionError(IMAGE) for a member that no layer may have,
        tarfile.TarError and other errors of reading.
        """
        if len(layers) > MOST_STACKED:
            self._find_unfit(f"it has {len(layers)} layers, and at most {MOST_STACKED} fit")
        for number, layer in enumerate(layers):
            with layer() as members:
                for member in members:
                    self._collect(member, number)
        if self._whiteouts or self._links:
            for number, layer in enumerate(layers):
                with layer() as members:
                    for member in members:
                        self._meet(member, number)
            self._judge()
        return ScanResult(self._remarks.remarks(), self._unfit)

    def _find_unfit(self, reason: str) -> None:
        self._unfit = self._unfit or reason

    def _collect(self, member: tarfile.TarInfo, number: int) -> None:
        if member.type == LABEL:
            self._find_unfit("a layer has a label")
            return
        path = member_path(member.name)
        shown = shown_name(member.name)
        mark = whiteout(path)
        if mark is not None:
            if not mark.opaque and self._is_counted():
                self._whiteouts.setdefault(mark.path, {})[number] = False
            return
        _check_type(member, path, shown)
        self._look_at_attributes(member, shown)
        if member.islnk():
            target = member_path(member.linkname)
            if self._is_counted():
                self._links.setdefault(target, {}).setdefault(number, _Link(path))
                self._above_links.update(_folders(target))
        elif member.ischr() or member.isblk():
            device = member.devmajor, member.devminor
            if not is_kept_device(is_character=member.ischr(), number=device):
                self._remarks.add(
                    device_left_out(shown, is_character=member.ischr(), number=device)
                )

    def _is_counted(self) -> bool:
        self._count += 1
        if self._count > self._most_names:
            self._find_unfit("it has too many whiteouts and links")
        return self._count <= self._most_names

    def _look_at_attributes(self, member: tarfile.TarInfo, shown: str) -> None:
        size = 0
        for header, value in member.pax_headers.items():
            if not header.startswith(XATTR):
                continue
            name = header.removeprefix(XATTR)
            size += len(value)
            if attribute(name) is Attribute.REFUSED:
                raise _fault(f"{shown} has the attribute {name[:100]}, {attribute_fault(name)}")
            if attribute(name) is Attribute.LEFT_OUT:
                self._remarks.add(attribute_left_out(shown, name[:100], attribute_fault(name)))
            elif name.startswith("user.") and not (member.isreg() or member.isdir()):
                self._find_unfit(f"{shown} has an attribute that only files have")
        if size > _LARGE_ATTRIBUTES:
            self._find_unfit(f"{shown} has attributes of {size} bytes")

    def _meet(self, member: tarfile.TarInfo, number: int) -> None:
        """Strike an entry of layer `number` from the names that are looked for."""
        path = member_path(member.name) if member.type != LABEL else ""
        if not path or whiteout(path) is not None:
            return
        self._is_over_links |= member.issym() and path in self._above_links
        for at, link in self._links.get(path, {}).items():
            link.is_own |= at == number
            link.is_lower |= at > number
        # A directory may be there by its entries alone.
        for prefix in (path, *_folders(path)):
            marks = self._whiteouts.get(prefix, {})
            if number in marks:
                self._find_unfit(f"a layer removes {shown_name(prefix)} and has it too")
            for at in marks:
                marks[at] |= at > number

    def _judge(self) -> None:
        for path, marks in self._whiteouts.items():
            if not all(marks.values()):
                self._find_unfit(f"a layer removes {shown_name(path)}, which no lower one has")
        for target, links in self._links.items():
            for link in links.values():
                if link.is_own:
                    continue
                said = f"{shown_name(link.name)} is a link to {shown_name(target)}"
                if not (link.is_lower or self._is_over_links):
                    raise _fault(f"{said}, which no layer up to this one has")
                self._find_unfit(f"{said} of a lower layer")


def _check_type(member: tarfile.TarInfo, path: str, shown: str) -> None:
    """Raise ExecutionError(IMAGE) for an entry that no directory of a layer can have."""
    if not path and not member.isdir():
        raise _fault("its root is not a directory")
    if member.type not in _TYPES:
        raise _fault(f"{shown} has the unknown type {member.type!r}")
    if member.issym() and not member.linkname:
        raise _fault(f"{shown} is a link to nothing")
    if member.islnk() and not member_path(member.linkname):
        raise _fault(f"{shown} is a link to a directory")


def _folders(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _fault(fault: str) -> ExecutionError:
    return ExecutionError(f"a layer of the image is damaged: {fault}", Failure.IMAGE)
