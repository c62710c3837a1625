"""Specifications of the Container Device Interface, read and checked as its text says.

A specification is a file that the maker of a device installs. It names devices of one kind,
`vendor/class`, and for each the edits of a container that gets it: environment, device nodes,
mounts, hooks, groups. Versions 0.3.0 to 1.1.0 are read; a specification must not use what its
version does not have, and unknown keys are refused (SPEC.md of the project, sections Released
versions and CDI JSON Specification).

Paths must be absolute and without `..` or NUL, which the text demands of hooks alone: no path of a
specification is relative to anything. Sizes are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from lading.core.errors import Invalid
from lading.core.values import Json, printable

MOST_BYTES: Final = 1 << 20
"""Bytes of a file."""
_DEEPEST: Final = 16
_VERSIONS: Final = (
    "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0",
)  # fmt: skip
_HOOKS: Final = (
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop",
)  # fmt: skip
NO_PERMISSIONS: Final = "none"
_LONGEST_VENDOR, _LONGEST_CLASS = 253, 63
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_DEVICE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?")

_Text = Annotated[str, Meta(max_length=4096)]
_Texts = Annotated[tuple[_Text, ...], Meta(max_length=1024)]
_Id = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Annotations = Annotated[dict[_Text, _Text], Meta(max_length=256)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An object of a specification, with the names of its keys."""


class DeviceNode(_Part, frozen=True, kw_only=True):
    """A device file; without `host_path` that of the same path, without numbers those of the
    host's.
    """

    path: _Text
    host_path: _Text = ""
    type: _Text = ""
    major: _Id = 0
    minor: _Id = 0
    file_mode: _Id | None = None
    permissions: _Text = ""
    uid: _Id | None = None
    gid: _Id | None = None

    @property
    def source(self) -> str:
        """The path on the host."""
        return self.host_path or self.path


class Mount(_Part, frozen=True, kw_only=True):
    """A file or directory of the host in the container."""

    host_path: _Text
    container_path: _Text
    options: _Texts = ()
    type: _Text = ""


class Hook(_Part, frozen=True, kw_only=True):
    """A program that is run on the way to the container; `args` begins with its name."""

    hook_name: _Text
    path: _Text
    args: _Texts = ()
    env: _Texts = ()
    timeout: _Id | None = None


class IntelRdt(_Part, frozen=True, kw_only=True):
    """Settings of Intel's cache and memory bandwidth."""

    clos_id: _Text = msgspec.field(default="", name="closID")
    l3_cache_schema: _Text = msgspec.field(default="", name="l3CacheSchema")
    mem_bw_schema: _Text = ""
    schemata: _Texts | None = None
    enable_monitoring: bool = False
    enable_cmt: bool = msgspec.field(default=False, name="enableCMT")
    enable_mbm: bool = msgspec.field(default=False, name="enableMBM")


class NetDevice(_Part, frozen=True, kw_only=True):
    """A network interface that moves into the container."""

    host_interface_name: _Text
    name: _Text


class ContainerEdits(_Part, frozen=True, kw_only=True):
    """Changes of a container."""

    env: _Texts = ()
    device_nodes: Annotated[tuple[DeviceNode, ...], Meta(max_length=1024)] = ()
    net_devices: Annotated[tuple[NetDevice, ...], Meta(max_length=64)] = ()
    mounts: Annotated[tuple[Mount, ...], Meta(max_length=1024)] = ()
    hooks: Annotated[tuple[Hook, ...], Meta(max_length=64)] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: Annotated[tuple[_Id, ...], Meta(max_length=256)] = ()


NO_EDITS: Final = ContainerEdits()


class CdiDevice(_Part, frozen=True, kw_only=True):
    """A device by its name, and what it changes."""

    name: _Text
    annotations: _Annotations = {}
    container_edits: ContainerEdits


class CdiSpecification(_Part, frozen=True, kw_only=True):
    """The devices of one kind, and what each of them changes besides."""

    cdi_version: _Text
    kind: _Text
    annotations: _Annotations = {}
    devices: Annotated[tuple[CdiDevice, ...], Meta(min_length=1, max_length=1024)]
    container_edits: ContainerEdits = NO_EDITS


def read_specification(document: Json) -> CdiSpecification:
    """The specification in the document of a file. Raises Invalid naming the fault."""
    try:
        read = msgspec.convert(_without_nulls(document, 0), CdiSpecification, strict=True)
    except msgspec.ValidationError as error:
        raise Invalid(f"CDI: {printable(str(error)[:200])}") from None
    _check_version(read)
    vendor, _, class_ = read.kind.partition("/")
    _check_name("vendor", vendor, _LONGEST_VENDOR)
    _check_name("class", class_, _LONGEST_CLASS)
    _check_edits(read.container_edits)
    names: set[str] = set()
    for device in read.devices:
        if _DEVICE_NAME.fullmatch(device.name) is None:
            raise Invalid(f"CDI: {_shown(device.name)}: is no name of a device")
        if device.name in names:
            raise Invalid(f"CDI: {_shown(device.name)}: names two devices")
        if device.container_edits == NO_EDITS:
            raise Invalid(f"CDI: {_shown(device.name)}: its containerEdits are empty")
        names.add(device.name)
        _check_edits(device.container_edits)
    return read


def parse_name(qualified: str) -> tuple[str, str]:
    """The kind and the name in `vendor/class=name`. Raises Invalid."""
    kind, separator, name = qualified.partition("=")
    vendor, _, class_ = kind.partition("/")
    if not separator or _DEVICE_NAME.fullmatch(name) is None:
        raise Invalid(f"CDI: {_shown(qualified)}: write a device as vendor/class=name")
    _check_name("vendor", vendor, _LONGEST_VENDOR)
    _check_name("class", class_, _LONGEST_CLASS)
    return kind, name


def least_version(specification: CdiSpecification) -> str:
    """The oldest version that has all that a specification uses."""
    return next(
        (version for version, uses in _USES if uses(specification)),
        _VERSIONS[0],
    )


def _without_nulls(value: Json, depth: int) -> Json:
    """The value without keys whose value is null, which stands for an absent one."""
    if depth > _DEEPEST:
        raise Invalid(f"CDI: more than {_DEEPEST} objects and lists in each other")
    if isinstance(value, dict):
        return {
            name: _without_nulls(inner, depth + 1)
            for name, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_without_nulls(inner, depth + 1) for inner in value]
    return value


def _check_version(specification: CdiSpecification) -> None:
    version = specification.cdi_version.removeprefix("v")
    if version not in _VERSIONS:
        raise Invalid(
            f"CDI: cdiVersion {_shown(specification.cdi_version)}: is none of "
            f"{_VERSIONS[0]} to {_VERSIONS[-1]}"
        )
    least = least_version(specification)
    if _VERSIONS.index(version) < _VERSIONS.index(least):
        raise Invalid(f"CDI: cdiVersion {version}: it uses what came with {least}")


def _check_name(term: str, name: str, longest: int) -> None:
    if _NAME.fullmatch(name) is None or len(name) > longest:
        raise Invalid(f"CDI: kind: {_shown(name)} is no {term}; write vendor.com/class")


def _check_edits(edits: ContainerEdits) -> None:
    _check_variables(edits.env)
    for path in _paths(edits):
        _check_path(path)
    for node in edits.device_nodes:
        _check_node(node)
    for hook in edits.hooks:
        _check_hook(hook)
    _check_interfaces(edits.net_devices)
    if edits.intel_rdt is not None:
        _check_class_of_service(edits.intel_rdt.clos_id)


def _check_variables(variables: Iterable[str]) -> None:
    for variable in variables:
        if variable.find("=") < 1 or "\0" in variable:
            raise Invalid(f"CDI: env: {_shown(variable)} is not NAME=VALUE")


def _check_path(path: str) -> None:
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise Invalid(f"CDI: {_shown(path)}: must be an absolute path without '..'")


def _check_node(node: DeviceNode) -> None:
    if node.type not in ("", "b", "c", "u", "p"):
        raise Invalid(f"CDI: {_shown(node.path)}: type {_shown(node.type)} is none of b, c, u, p")
    if node.permissions != NO_PERMISSIONS and node.permissions.strip("rwm"):
        raise Invalid(
            f"CDI: {_shown(node.path)}: permissions {_shown(node.permissions)} are not of r, w, m"
        )


def _check_hook(hook: Hook) -> None:
    _check_variables(hook.env)
    if hook.hook_name not in _HOOKS:
        raise Invalid(f"CDI: hooks: {_shown(hook.hook_name)} is none of {', '.join(_HOOKS)}")
    if hook.timeout == 0:
        raise Invalid(f"CDI: hooks: {_shown(hook.path)}: its timeout must be more than 0")


def _check_interfaces(devices: Iterable[NetDevice]) -> None:
    names: set[tuple[str, str]] = set()
    for device in devices:
        for side, name in (("host", device.host_interface_name), ("container", device.name)):
            if not name or (side, name) in names:
                raise Invalid(f"CDI: netDevices: {_shown(name)}: is empty, or there twice")
            names.add((side, name))


def _check_class_of_service(name: str) -> None:
    if name != "/" and (name in (".", "..") or "/" in name or "\n" in name or len(name) > 4095):
        raise Invalid(f"CDI: intelRdt: {_shown(name)} is no closID")


def _paths(edits: ContainerEdits) -> Iterator[str]:
    for node in edits.device_nodes:
        yield from (node.path, node.source)
    for mount in edits.mounts:
        yield from (mount.host_path, mount.container_path)
    for hook in edits.hooks:
        yield hook.path


def _all_edits(specification: CdiSpecification) -> Iterator[ContainerEdits]:
    yield specification.container_edits
    yield from (device.container_edits for device in specification.devices)


def _uses_1_1(specification: CdiSpecification) -> bool:
    return any(
        edits.net_devices
        or (
            edits.intel_rdt is not None
            and (edits.intel_rdt.schemata is not None or edits.intel_rdt.enable_monitoring)
        )
        for edits in _all_edits(specification)
    )


def _uses_0_7(specification: CdiSpecification) -> bool:
    return any(
        edits.intel_rdt is not None or edits.additional_gids for edits in _all_edits(specification)
    )


def _uses_0_6(specification: CdiSpecification) -> bool:
    has_notes = specification.annotations or any(
        device.annotations for device in specification.devices
    )
    return bool(has_notes) or "." in specification.kind.partition("/")[2]


def _uses_0_5(specification: CdiSpecification) -> bool:
    return any(device.name[:1].isdigit() for device in specification.devices) or any(
        node.host_path for edits in _all_edits(specification) for node in edits.device_nodes
    )


def _uses_0_4(specification: CdiSpecification) -> bool:
    return any(mount.type for edits in _all_edits(specification) for mount in edits.mounts)


_USES: Final = (
    ("1.1.0", _uses_1_1), ("0.7.0", _uses_0_7), ("0.6.0", _uses_0_6), ("0.5.0", _uses_0_5),
    ("0.4.0", _uses_0_4),
)  # fmt: skip
"""Fields and the version that each needs, the newest first."""


def _shown(value: str) -> str:
    return repr(printable(value[:80]))
