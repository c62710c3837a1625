"""The walls around a container, by engine, as its command sees them: the data of the table in
docs/security.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from lading.supervisor.engines.bundle import MASKED, READONLY
from lading.supervisor.starter.plan import CAPABILITY_NUMBERS

ENGINES: Final = ("native", "native, ordinary user", "native-crun", "docker", "podman")
"""Columns of the table."""
_ALL_EQUAL: Final[Mapping[str, str]] = {
    "namespaces": "ipc, mnt, net, pid, uts",
    "capabilities": "nine, none inherited or ambient",
    "no new privileges": "set",
    "refused calls (seccomp)": "a filter",
    "masked files of the kernel": "empty",
    "read-only files of the kernel": "read-only",
    "`/sys`": "read-only",
    "devices": "six, with terminals of its own",
    "new device files": "refused",
    "network": "the loopback interface",
    "keys": "hidden",
    "control group": "its own",
    "open files": "three streams",
    "core files": "none (1 byte)",
    "queued signals": "at most 4,096",
}
_OWN_USERS: Final = "ipc, mnt, net, pid, user, uts"
WALLS: Final[Mapping[str, Mapping[str, str]]] = {
    "native": {**_ALL_EQUAL, "namespaces": _OWN_USERS, "ids": "a range of its own"},
    "native, ordinary user": {
        **_ALL_EQUAL,
        "namespaces": _OWN_USERS,
        "ids": "one, the user's",
        "control group": "the user's",
    },
    "native-crun": {**_ALL_EQUAL, "namespaces": _OWN_USERS, "ids": "a range of its own"},
    "docker": {**_ALL_EQUAL, "ids": "the machine's"},
    "podman": {**_ALL_EQUAL, "ids": "the machine's"},
}
"""By engine and wall."""
_READ: Final = (
    "for file in {0} {0}/* {0}/*/*; do [ -f $file ] && [ -r $file ] && read -r line < $file;"
    ' [ -n "$line" ] && echo shown && break; done; :'
)
SCRIPT: Final = "; echo ==; ".join(
    (
        "ls -l /proc/self/ns",
        "cat /proc/self/status",
        "cat /proc/self/mountinfo",
        "ls -A /dev",
        "cat /proc/net/dev",
        "cat /proc/self/cgroup",
        "cat /proc/self/limits",
        "cat /proc/self/uid_map",
        "ls /proc/self/fd",
        "mknod disk b 8 0 && echo made || echo refused",
        *(f"line=; {_READ.format(path)}" for path in MASKED),
    )
)
"""The script of the shell; needs `PROGRAMS` in the image."""
PROGRAMS: Final = tuple(f"/bin/{name}" for name in ("dash", "cat", "ls", "mknod"))
_DEVICES: Final = {"full", "null", "random", "tty", "urandom", "zero"}
_TERMINALS: Final = {"ptmx", "pts"}
# Directories for memory and messages, and links that programs expect.
_OTHERS: Final = {"core", "fd", "mqueue", "shm", "stderr", "stdin", "stdout", "console"}


def observed(out: str, own: Path = Path("/proc/self")) -> Mapping[str, str]:
    """The walls in the output of the script. `own`: the directory in /proc of a process outside."""
    spaces, status, mounts, devices, network, group, limits, ids, files, device, *masked = (
        out.split("==\n")
    )
    options = {line.split()[4]: line.split()[5].split(",") for line in mounts.splitlines()}
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    names = set(devices.split())
    shown = [path for path, content in zip(MASKED, masked, strict=True) if content]
    present = (path for path in READONLY if Path(path).exists())
    writable = [path for path in present if "ro" not in options.get(path, ())]
    return {
        "namespaces": ", ".join(sorted(_own_namespaces(spaces, own))),
        "capabilities": _capabilities(fields),
        "no new privileges": "set" if fields["NoNewPrivs"] == "1" else "not set",
        "refused calls (seccomp)": "a filter" if fields["Seccomp"] == "2" else "no filter",
        "masked files of the kernel": _listed(shown) or "empty",
        "read-only files of the kernel": _listed(writable) or "read-only",
        "`/sys`": "read-only" if "ro" in options["/sys"] else "writable",
        "devices": "six, with terminals of its own"
        if names - _OTHERS == _DEVICES | _TERMINALS
        else _listed(names),
        "new device files": device.strip(),
        "network": _network(network),
        "keys": "seen" if "/proc/keys" in shown else "hidden",
        "control group": "the user's"
        if _group(group) == _group((own / "cgroup").read_text())
        else "its own",
        "open files": "three streams"
        if files.split() == ["0", "1", "2", "3"]  # the last one is of `ls`
        else _listed(files.split()),
        **_limits(limits),
        "ids": _ids(ids),
    }


def _own_namespaces(listed: str, own: Path) -> Iterable[str]:
    for name, number in re.findall(r"(\w+) -> \w+:\[(\d+)\]", listed):
        # Daemons make one of control groups with version 2 of these; it hides a path.
        is_left_out = name == "cgroup" or name.endswith("_for_children")
        if not is_left_out and (own / "ns" / name).readlink() != Path(f"{name}:[{number}]"):
            yield name


def _capabilities(fields: Mapping[str, str]) -> str:
    held = {fields[name] for name in ("CapEff", "CapPrm", "CapBnd")}
    passed = {fields[name] for name in ("CapInh", "CapAmb")}
    if held == {f"{sum(1 << number for number in CAPABILITY_NUMBERS.values()):016x}"}:
        return f"nine, {'some' if passed != {'0' * 16} else 'none'} inherited or ambient"
    return _listed(held)


def _network(interfaces: str) -> str:
    names = [line.split(":")[0].strip() for line in interfaces.splitlines()[2:]]
    return "the loopback interface" if names == ["lo"] else _listed(names)


def _group(listed: str) -> str:
    """The path of the group that limits memory."""
    groups = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in listed.splitlines()}
    return groups.get("memory", groups.get("", ""))


def _limits(listed: str) -> Mapping[str, str]:
    most = {line[:25].strip(): line[25:].split()[1] for line in listed.splitlines()[1:]}
    core, signals = most["Max core file size"], most["Max pending signals"]
    return {
        "core files": "none (1 byte)" if core == "1" else core,
        "queued signals": "at most 4,096" if int(signals) <= 4096 else signals,
    }


def _ids(mapped: str) -> str:
    inside, outside, count = (int(number) for number in mapped.split()[:3])
    if (inside, outside) == (0, 0) and count >= 1 << 31:
        return "the machine's"
    return "one, the user's" if count == 1 else "a range of its own"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
