"""The extras of the distribution: a command that needs one says which command installs it.

The distribution without extras is the client. Its wheel for all systems has no server; the wheels
for Linux have the server's modules, whose packages come with the extra `server`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

PACKAGES: Final[frozenset[str]] = frozenset(
    {
        "aiodocker", "aiohttp", "asyncpg", "asyncssh", "cryptography", "fsspec", "httptools",
        "jinja2", "joserfc", "mcp", "mfusepy", "prometheus_client", "starlette", "uvicorn",
        "uvloop", "websockets", "yaml",
    }
)  # fmt: skip
"""Top-level modules of the packages that extras bring."""
SERVER: Final[frozenset[str]] = frozenset(
    f"lading.{name}"
    for name in (
        "api", "blobs", "dispatch", "fileserving", "s3", "store", "supervisor", "tes", "web",
        "webdav", "wiring",
    )
)  # fmt: skip
"""Packages of the server's modules, which the wheel for all systems lacks."""
_EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {"mount": "mount", "export": "export", "import": "export", "replay": "export", "mcp": "mcp"}
)
_OTHER: Final = "server"
_OF_UNIX: Final = frozenset({"fcntl", "resource", "termios"})
"""Modules of Python that Windows lacks: the caches of mounts and of layers need them."""


def remedy(error: ModuleNotFoundError, command: str) -> str:
    """The message for a command that needs a module of an extra; "" for any other module."""
    name = error.name or ""
    if ".".join(name.split(".")[:2]) in SERVER:
        return _without_server(command, sys.platform)
    if sys.platform == "win32" and name in _OF_UNIX:
        return f"lading {command} does not run on Windows; WSL, which is Linux, has it"
    if name.partition(".")[0] not in PACKAGES:
        return ""
    extra = _EXTRAS.get(command, _OTHER)
    origin, is_editable = _origin()
    installing = install_command(
        extra, origin=origin, prefix=PurePath(sys.prefix), is_editable=is_editable
    )
    return f"lading {command} needs the extra '{extra}', which is not installed: {installing}"


def _without_server(command: str, system: str) -> str:
    """The message where not even the server's modules are installed."""
    if system != "linux":
        return (
            f"lading {command} needs Linux; here is the client of a site elsewhere: "
            "lading login https://HOST"
        )
    return (
        f"lading {command} needs the server, which the wheel for all systems lacks: install the "
        "wheel for Linux with its extra 'server' (docs/installing.md)"
    )


def install_command(extra: str, *, origin: str, prefix: PurePath, is_editable: bool = False) -> str:
    """The command that adds an extra to an installation.

    `origin`: the directory or the wheel that it came from, "" for an index; `prefix`: its
    environment, from whose path the installer is told; `is_editable`: the directory itself is
    used, as in a checkout, and must be after it too.
    """
    requirement = shlex.quote(f"{origin or 'lading'}[{extra}]")
    if is_editable:
        requirement = f"-e {requirement}"
    folders = prefix.parts
    if "pipx" in folders:
        return f"pipx install --force {requirement}"
    if "uv" in folders and "tools" in folders:
        return f"uv tool install {requirement}"
    return f"pip install {requirement}"


def _origin() -> tuple[str, bool]:
    """The directory or file that this installation came from, "" if none is recorded (PEP 610), and
    whether it is used in place.
    """
    # Imported here: only a missing package needs it.
    import json

    try:
        record = metadata.distribution("lading").read_text("direct_url.json")
        source = json.loads(record or "{}")
        address = urlsplit(source.get("url", ""))
        is_editable = bool(source.get("dir_info", {}).get("editable"))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return "", False
    path = unquote(address.path) if address.scheme == "file" else ""
    return (path, is_editable) if path and Path(path).exists() else ("", False)
