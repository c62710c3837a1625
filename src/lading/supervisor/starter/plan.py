"""The plan of a container for `lading-start`, from the same configuration that crun gets.

A plan is a mark and records. A record is a letter, the length of its fields in four bytes, the
lowest first, and the fields: texts that each end with a zero byte; a filter is bytes as they are.
`supervisor/starter/plan.h` lists the letters. A plan can hold all that `bundle.make_config` makes
but hooks.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from lading.core.errors import ExecutionError, Failure

MARK: Final = b"lading-start 3\n"
ATTRIBUTES: Final[Mapping[str, int]] = {
    "ro": 0x1,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "strictatime": 0x20,
}
"""Options of mounts that are attributes of mount_setattr(2)."""
# A copy has all mounts below its source, and hears of no others, as a plan's binds always do.
_ALWAYS: Final = frozenset({"rbind", "rprivate"})
# Numbers of capabilities (linux/capability.h).
CAPABILITY_NUMBERS: Final[Mapping[str, int]] = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_SYS_CHROOT": 18,
}

# Numbers of the device files that crun makes in each container by itself.
_USUAL_DEVICES: Final[Mapping[str, tuple[int, int]]] = {
    "/dev/null": (1, 3),
    "/dev/zero": (1, 5),
    "/dev/full": (1, 7),
    "/dev/tty": (5, 0),
    "/dev/random": (1, 8),
    "/dev/urandom": (1, 9),
}


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """How a container is started and joined with the machine."""

    descriptor: int
    """The end of a pipe from which the start line is read."""
    join: Sequence[str] = ()
    """Files of control groups to which a process writes 0."""
    notice: str = ""
    """Path to which the number of the first process is written, as JSON; "": none."""
    can_set_groups: bool = True
    """Whether the user namespace of this process lets one below it set groups."""
    is_kept: bool = False
    """Without a command: the container stays until the gate is closed."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A container that runs, to be entered."""

    process: int
    """Descriptor of its first process (pidfd_open(2)), which enters no process that has its number
    later.
    """
    join: Sequence[str] = ()
    can_set_groups: bool = True
    terminal: int = -1
    """Socket that gets the controlling end of a new terminal; -1: none."""


def container_plan(config: Mapping[str, Any], program: bytes, gate: Gate) -> bytes:
    """The plan of a container. `program` is the compiled filter of system calls. Raises
    ExecutionError(USER) for a text with a zero byte.
    """
    details = config["linux"]
    records = [
        _record("R", config["root"]["path"]),
        _record("H", config["hostname"]),
        *(_mount(mount) for mount in config["mounts"]),
        *(
            _record("D", path, "c", *numbers, 0o666, 0, 0)
            for path, numbers in _USUAL_DEVICES.items()
        ),
        *(_device(device) for device in details["devices"]),
        *(_record("X", path) for path in details["maskedPaths"]),
        *(_record("O", path) for path in details["readonlyPaths"]),
        *_ids(details, gate.can_set_groups),
        *(_record("J", path) for path in gate.join),
        _record("G", gate.descriptor),
        *([_record("N", gate.notice)] if gate.notice else ()),
        *([_record("K")] if gate.is_kept else ()),
    ]
    return _joined(records, config["process"], program, has_command=not gate.is_kept)


def entry_plan(
    config: Mapping[str, Any], process: Mapping[str, Any], program: bytes, entry: Entry
) -> bytes:
    """The plan of a command beside the container's own, whose configuration is `config`. Raises
    ExecutionError(USER) for a text with a zero byte.
    """
    records = [
        *_ids(config["linux"], entry.can_set_groups),
        *(_record("J", path) for path in entry.join),
        _record("P", entry.process),
        *([_record("T", entry.terminal)] if entry.terminal >= 0 else ()),
    ]
    return _joined(records, process, program)


def _joined(
    records: Sequence[bytes],
    process: Mapping[str, Any],
    program: bytes,
    *,
    has_command: bool = True,
) -> bytes:
    return b"".join((MARK, *records, *_process(process, has_command), _raw("F", program)))


def _process(process: Mapping[str, Any], has_command: bool) -> Iterator[bytes]:
    user, capabilities = process["user"], process["capabilities"]
    yield _record("U", user["uid"], user["gid"])
    yield from (_record("S", group) for group in user.get("additionalGids", ()))
    numbers = {CAPABILITY_NUMBERS[name] for name in capabilities["bounding"]}
    yield _record("C", sum(1 << number for number in numbers))
    for limit in process["rlimits"]:
        yield _record("L", getattr(resource, limit["type"]), limit["hard"])
    yield _record("W", process["cwd"])
    yield from (_record("E", variable) for variable in process["env"])
    if has_command:
        yield from (_record("A", argument) for argument in process["args"])


def _mount(mount: Mapping[str, Any]) -> bytes:
    options, target = mount["options"], mount["destination"]
    attributes = sum(ATTRIBUTES[option] for option in options if option in ATTRIBUTES)
    others = [option for option in options if option not in ATTRIBUTES]
    if mount["type"] != "bind":
        return _record("M", target, mount["type"], ",".join(others), attributes)
    if unknown := set(others) - _ALWAYS:
        raise ExecutionError(f"mounts[{target}]: options {sorted(unknown)} are unknown")
    return _record("B", target, mount["source"], attributes)


def _device(device: Mapping[str, Any]) -> bytes:
    numbers = (device[name] for name in ("major", "minor", "fileMode", "uid", "gid"))
    return _record("D", device["path"], device["type"], *numbers)


def _ids(details: Mapping[str, Any], can_set_groups: bool) -> Iterator[bytes]:
    if "uidMappings" in details:
        yield _record("I", *(_table(details[name]) for name in ("uidMappings", "gidMappings")))
        if not can_set_groups:
            yield _record("V")


def _table(mappings: Sequence[Mapping[str, int]]) -> str:
    """The content of a file uid_map (user_namespaces(7))."""
    return "".join(
        f"{mapping['containerID']} {mapping['hostID']} {mapping['size']}\n" for mapping in mappings
    )


def _record(letter: str, *fields: str | int) -> bytes:
    texts = [str(field).encode(errors="surrogateescape") for field in fields]
    if any(b"\0" in encoded for encoded in texts):
        raise ExecutionError(
            "the command cannot be started: an argument, a variable or a path has a zero byte",
            Failure.USER,
        )
    return _raw(letter, b"".join(encoded + b"\0" for encoded in texts))


def _raw(letter: str, content: bytes) -> bytes:
    return letter.encode() + len(content).to_bytes(4, "little") + content
