"""Devices of the specifications of a machine: which one a name means, and what it changes.

- Specifications are read from directories; a device of a later directory takes the place of one
  with the same name in an earlier one (`/var/run/cdi` before `/etc/cdi`).
- Two specifications of one directory that have the same device make it unusable: nobody can say
  which is meant.
- The edits of a specification are made once, before those of its first device; the edits of devices
  in the order in which they are asked for.
- Of several values of one environment variable, nodes of one path, or mounts at one place the last
  one counts. Mounts are ordered so that parents come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lading.core.containers.cdi.specification import (
    NO_EDITS,
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    parse_name,
)
from lading.core.errors import Invalid, NotFound
from lading.core.values import printable

DIRECTORIES: Final = ("/etc/cdi", "/var/run/cdi")
"""Directories of specifications, the one that has precedence last."""
_Item = TypeVar("_Item")
_MOST_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiFile:
    """A specification, the path of its file, and the rank of its directory: a higher one has
    precedence.
    """

    path: str
    rank: int
    specification: CdiSpecification


@dataclass(frozen=True, slots=True)
class CdiDevices:
    """The devices of a machine by their qualified names, each with its file; and for names that
    several files of one directory have the reason why none is meant.
    """

    devices: Mapping[str, tuple[CdiFile, CdiDevice]] = field(default_factory=dict)
    conflicts: Mapping[str, str] = field(default_factory=dict)

    def kinds(self) -> tuple[str, ...]:
        """The kinds, in order."""
        return tuple(sorted({name.partition("=")[0] for name in self.devices}))

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of the devices of a kind, without it."""
        return tuple(
            device.name for file, device in self.devices.values() if file.specification.kind == kind
        )

    def edits(self, names: Iterable[str]) -> ContainerEdits:
        """The changes by the devices with these qualified names, together. Raises Invalid for a
        name of another form or one with a conflict, NotFound for a kind or a device that is not
        there.
        """
        edits: list[ContainerEdits] = []
        begun: set[str] = set()
        for name in dict.fromkeys(names):
            file, device = self._find(name)
            if file.path not in begun:
                begun.add(file.path)
                edits.append(file.specification.container_edits)
            edits.append(device.container_edits)
        return merge(edits)

    def _find(self, name: str) -> tuple[CdiFile, CdiDevice]:
        kind, short = parse_name(name)
        if name in self.conflicts:
            raise Invalid(f"CDI: {name}: {self.conflicts[name]}")
        if name in self.devices:
            return self.devices[name]
        known = self.names(kind)
        if not known:
            kinds = ", ".join(self.kinds()[:_MOST_SHOWN]) or "none"
            raise NotFound(f"CDI: no specification of this machine is of the kind {kind} ({kinds})")
        shown = ", ".join(known[:_MOST_SHOWN])
        raise NotFound(f"CDI: {kind} has no device {printable(short)!r}; it has: {shown}")


def find_devices(files: Iterable[CdiFile]) -> CdiDevices:
    """The devices of files, by the precedence of their directories."""
    rivals: dict[str, list[tuple[CdiFile, CdiDevice]]] = {}
    for file in files:
        for device in file.specification.devices:
            name = f"{file.specification.kind}={device.name}"
            rivals.setdefault(name, []).append((file, device))
    devices: dict[str, tuple[CdiFile, CdiDevice]] = {}
    conflicts: dict[str, str] = {}
    for name, candidates in rivals.items():
        highest = max(file.rank for file, _ in candidates)
        first = [candidate for candidate in candidates if candidate[0].rank == highest]
        if len(first) == 1:
            devices[name] = first[0]
        else:
            paths = " and ".join(sorted(file.path for file, _ in first)[:2])
            conflicts[name] = f"{paths} both have it; remove it from one of them"
    return CdiDevices(devices, conflicts)


def merge(edits: Sequence[ContainerEdits]) -> ContainerEdits:
    """Several edits as one; later values take the place of earlier ones."""
    variables = _all(edits, lambda source: source.env)
    nodes = _all(edits, lambda source: source.device_nodes)
    interfaces = _all(edits, lambda source: source.net_devices)
    mounts = _last(_all(edits, lambda source: source.mounts), lambda mount: mount.container_path)
    groups = _all(edits, lambda source: source.additional_gids)
    settings = [source.intel_rdt for source in edits if source.intel_rdt is not None]
    return ContainerEdits(
        env=tuple(_last(variables, lambda variable: variable.partition("=")[0])),
        device_nodes=tuple(_last(nodes, lambda node: node.path)),
        net_devices=tuple(_last(interfaces, lambda interface: interface.name)),
        mounts=tuple(sorted(mounts, key=lambda mount: mount.container_path.count("/"))),
        # In their order, and each as often as it is asked for: a hook may count its calls.
        hooks=tuple(_all(edits, lambda source: source.hooks)),
        intel_rdt=settings[-1] if settings else None,
        # The specification of CDI has group 0 ignored.
        additional_gids=tuple(dict.fromkeys(group for group in groups if group)),
    )


def _all(
    edits: Sequence[ContainerEdits], items: Callable[[ContainerEdits], Iterable[_Item]]
) -> Iterator[_Item]:
    return itertools.chain.from_iterable(map(items, edits))


def unsupported(edits: ContainerEdits) -> str:
    """The edits that Lading does not make, in words; "" for none."""
    if edits.net_devices:
        return "moves network interfaces into the container"
    return "sets Intel RDT" if edits.intel_rdt is not None else ""


def is_empty(edits: ContainerEdits) -> bool:
    """Whether the edits change nothing."""
    return edits == NO_EDITS


def _last(items: Iterable[_Item], key: Callable[[_Item], str]) -> list[_Item]:
    """The items, of those with one key the last, at the place of that one."""
    kept: dict[str, _Item] = {}
    for item in items:
        name = key(item)
        kept.pop(name, None)
        kept[name] = item
    return [*kept.values()]
