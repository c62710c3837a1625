"""A program that tries destinations from inside of a container, and what it needs there."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from lading.supervisor.engines import Bind, NetworkAccess
from lading.testing.conformance.engines import Kit

PROBE = """
import json, os, socket, sys
out = {}
for name, how, host, port in json.loads(sys.argv[1]):
    try:
        internet = socket.AF_INET6 if ":" in host else socket.AF_INET
        family = socket.AF_UNIX if how == "abstract" else internet
        with socket.socket(family) as s:
            s.settimeout(3)
            if how == "bound":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            if how == "bind":
                s.bind((host, port)); s.listen(); out[name] = "bound"; continue
            s.connect("\\0" + host if how == "abstract" else (host, port))
            out[name] = s.recv(100).decode()
    except OSError as error:
        out[name] = "refused: " + str(error)
out["namespace"] = os.readlink("/proc/self/ns/net")
out["resolv"] = open("/etc/resolv.conf").read() if os.path.exists("/etc/resolv.conf") else ""
print(json.dumps(out))
"""
Seen = dict[str, Any]


def run_probe(kit: Kit, reach: NetworkAccess, targets: str) -> Seen:
    """The results of the probe in a container. `targets` are rows of name, how, host and port as
    JSON.
    """
    command = (python(), "-c", PROBE, targets)
    ended, out, errors = asyncio.run(
        kit.run_command(command, network=True, reach=reach, binds=python_binds())
    )
    assert ended.code == 0, errors
    seen: Seen = json.loads(out)
    return seen


def python() -> str:
    """This Python, as it is without its environment."""
    return str(Path(sys.executable).resolve())


def python_binds() -> tuple[Bind, ...]:
    """The directories that it needs."""
    folders = [Path(name) for name in ("/usr", "/lib", "/lib64", sys.base_prefix)]
    chosen = [
        folder
        for folder in folders
        if folder.is_dir() and not any(other in folder.parents for other in folders)
    ]
    return tuple(Bind(str(path.resolve()), str(path), True) for path in dict.fromkeys(chosen))
