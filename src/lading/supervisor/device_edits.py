"""Additions to a container beside the device files of its GPUs: the driver's files, variables.

The specifications of the Container Device Interface on this machine say it; where none has these
GPUs, one is made from the loader's cache.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lading.core.containers.cdi import gpus as cdi_gpus
from lading.core.containers.cdi import loader_cache
from lading.core.containers.cdi.devices import (
    CdiFile,
    find_devices,
    unsupported,
)
from lading.core.containers.cdi.specification import (
    ContainerEdits,
    Hook,
    Mount,
)
from lading.core.errors import ExecutionError, Failure, Invalid
from lading.core.gpus.devices import GpuDevice, GpuDevices
from lading.process.gpus.cdi_files import read_devices
from lading.supervisor.engines import Bind, Device, EngineHook

_BIND_TYPES: Final = ("", "none", "bind")


class GpuFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Device files, files of the driver and variables for a container with GPUs; `notes` are
    sentences for its log, `has_driver` is whether the driver's files are among them.
    """

    devices: tuple[Device, ...] = ()
    binds: tuple[Bind, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    hooks: tuple[EngineHook, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_driver(self) -> bool:
        """Whether files of the driver are among them."""
        return bool(self.binds or self.environment or self.hooks)


def find_files(root: Path, gpus: GpuDevices, locked: Sequence[GpuDevice]) -> GpuFiles:
    """The files of locked GPUs, which are of one maker, on the machine whose directories
    are below `root`. Raises ExecutionError(NODE) for a specification that names what is not there,
    or what Lading does not do.
    """
    libraries = _libraries(root)
    devices, notes = read_devices(root)
    names = cdi_gpus.device_names(devices, locked)
    if not names:
        stack = locked[0].stack
        specification = cdi_gpus.generated(
            cdi_gpus.KINDS[stack],
            [gpu for gpu in gpus.devices if gpu.stack == stack],
            shared=gpus.shared.get(stack, ()),
            libraries=libraries,
            programs=[path for path in cdi_gpus.PROGRAMS if _below(root, path).is_file()],
        )
        files = [CdiFile(path="", rank=0, specification=specification)] if specification else []
        devices = find_devices(files)
        names = cdi_gpus.device_names(devices, locked)
    try:
        edits = devices.edits(names)
        return _applied(root, edits, libraries, notes)
    except Invalid as error:
        raise ExecutionError(error.message, Failure.NODE) from error


def _applied(
    root: Path, edits: ContainerEdits, libraries: Sequence[tuple[str, str]], notes: Sequence[str]
) -> GpuFiles:
    if fault := unsupported(edits):
        raise Invalid(f"CDI: the specification {fault}, which Lading does not do")
    stems = {_stem(mount.container_path) for mount in edits.mounts}
    names: dict[str, list[str]] = {}
    for name, path in libraries:
        # A machine has thousands, each of which may be a link of links.
        if _stem(name) in stems:
            names.setdefault(_real(root, path), []).append(name)
    mounts = [(mount, _source(root, mount)) for mount in edits.mounts]
    targets = cdi_gpus.all_names(mounts, names, platform.machine())
    writable = {mount.container_path for mount in edits.mounts if "rw" in mount.options}
    return GpuFiles(
        devices=tuple(_devices(root, edits)),
        binds=tuple(Bind(source, target, target not in writable) for source, target in targets),
        environment=tuple(_variables(edits)),
        hooks=tuple(_hook(hook) for hook in cdi_gpus.needed_hooks(edits)),
        notes=tuple(notes),
    )


def _stem(path: str) -> str:
    """The name of a library without its version, of another file its name."""
    return path.rpartition("/")[2].partition(".so")[0]


def _devices(root: Path, edits: ContainerEdits) -> Iterator[Device]:
    for node in edits.device_nodes:
        source = _below(root, node.source)
        if not source.exists():
            raise Invalid(f"CDI: {node.source} is not there; write the specification anew")
        yield Device(str(source), node.path)


def _source(root: Path, mount: Mount) -> str:
    """The file of a mount, with links followed. Raises Invalid."""
    if mount.type not in _BIND_TYPES:
        raise Invalid(f"CDI: {mount.container_path}: Lading mounts files alone, not {mount.type}")
    path = _real(root, mount.host_path)
    if not Path(path).exists():
        raise Invalid(f"CDI: {mount.host_path} is not there; write the specification anew")
    return path


def _hook(hook: Hook) -> EngineHook:
    """A hook of a program that root alone can have written. Raises Invalid."""
    for path in (Path(hook.path), *Path(hook.path).parents):
        try:
            status = path.lstat()
        except OSError:
            raise Invalid(f"CDI: the hook {hook.path} is not there") from None
        # Whoever may write a directory may put another program in its place.
        if status.st_uid != 0 or (
            status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode)
        ):
            raise Invalid(
                f"CDI: the hook {hook.path}: {path} must be root's, and for root to write"
            )
    if os.path.realpath(hook.path) != hook.path:
        raise Invalid(f"CDI: the hook {hook.path}: is a link; name the program itself")
    return EngineHook(
        stage=hook.hook_name,
        path=hook.path,
        arguments=hook.args,
        environment=hook.env,
        timeout=hook.timeout or 0,
    )


def _variables(edits: ContainerEdits) -> Iterator[tuple[str, str]]:
    for assignment in edits.env:
        name, _, value = assignment.partition("=")
        yield name, value


def _libraries(root: Path) -> list[tuple[str, str]]:
    """Names and paths of the loader's cache; none where there is none."""
    try:
        with _below(root, "/etc/ld.so.cache").open("rb") as file:
            return [*loader_cache.read_libraries(file.read(loader_cache.MOST_BYTES))]
    except OSError:
        return []


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _real(root: Path, path: str) -> str:
    return os.path.realpath(_below(root, path))
