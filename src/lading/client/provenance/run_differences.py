"""Differences between two runs apart from their requests: use of resources, and machine."""

from __future__ import annotations

import re
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_files
from lading.core.data import filetree
from lading.core.data.filetree import File
from lading.core.errors import LadingError
from lading.core.quantities import parse_time, size

_NODE: Final = "node-info.txt"
_LARGEST: Final = 4 << 20
Row = tuple[str, str, str]
"""Name, before, after."""


def resource_rows(before: Record, after: Record) -> list[Row]:
    """Resources that two containers were given and have used, where they differ."""
    return _different(_resources(before), _resources(after))


async def machine_rows(
    api: ApiClient, blocks: BlockClient, before: Record, after: Record
) -> list[Row]:
    """Facts about the machines of two containers that differ; none where a log cannot be read."""
    old, new = [await _machine(api, blocks, container) for container in (before, after)]
    return _different(old, new) if old and new else []


def machine_facts(node_info: str) -> dict[str, str]:
    """The facts in a `node-info.txt`: host, kernel, architecture, processors, memory."""
    facts: dict[str, str] = {}
    lines = node_info.splitlines()
    if "Host Information" in lines[:-1]:
        words = lines[lines.index("Host Information") + 1].split()
        if len(words) > 3:
            facts |= {"host": words[1], "kernel": words[2], "architecture": words[-1]}
    processors = sum(bool(re.match(r"processor\s*:", line)) for line in lines)
    if processors:
        facts["processors"] = str(processors)
    for name, pattern in (("processor", r"model name\s*:\s*(.+)"), ("memory", r"MemTotal:\s*(.+)")):
        first = next((match for line in lines if (match := re.match(pattern, line))), None)
        if first:
            facts[name] = " ".join(first[1].split())
    return facts


def _resources(container: Record) -> dict[str, str]:
    usage = container.get("usage") or {}
    constraints = container.get("runtime_constraints") or {}
    shown = {
        "ram": _bytes(constraints.get("ram")),
        "vcpus": _amount(constraints.get("vcpus")),
        "memory used": _bytes(usage.get("memory")),
        "processor time": _seconds(usage.get("cpu")),
        "cost": _amount(container.get("cost")),
    }
    if container["started_at"] and container["finished_at"]:
        took = parse_time(container["finished_at"]) - parse_time(container["started_at"])
        shown["time"] = _seconds(took.total_seconds())
    return {name: value for name, value in shown.items() if value is not None}


def _bytes(value: object) -> str | None:
    if not isinstance(value, int | float):
        return _amount(value)
    # Exact too: what differs by little must differ in the words.
    return f"{size(value)} ({value:.0f} B)" if value >= 1024 else size(value)


def _seconds(value: object) -> str | None:
    return f"{value:.6g} s" if isinstance(value, int | float) else _amount(value)


def _amount(value: object) -> str | None:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return None if value is None else str(value)


async def _machine(api: ApiClient, blocks: BlockClient, container: Record) -> dict[str, str]:
    if not container["log"]:
        return {}
    try:
        record = await api.get("collections", container["log"])
        file = filetree.find(filetree.from_manifest(record["manifest_text"]), _NODE)
        if not isinstance(file, File) or file.size > _LARGEST:
            return {}
        pieces = [piece async for _, piece in read_files(blocks, [file])]
    # The log may be gone, or not be readable: then the machine is not known.
    except LadingError:
        return {}
    return machine_facts(b"".join(pieces).decode(errors="replace"))


def _different(old: dict[str, str], new: dict[str, str]) -> list[Row]:
    names = dict.fromkeys([*old, *new])
    rows = [(name, old.get(name, "-"), new.get(name, "-")) for name in names]
    return [row for row in rows if row[1] != row[2]]
