"""A command beside the container's own, by `crun exec`.

What crun is told is what it was told of the container's own command, with other arguments: the same capabilities and
system calls, no new privileges, the container's environment and no other. It travels in a file, as others on this
machine can see command lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lading import confined
from lading.core import imagelayout
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Exec, Execution
from lading.supervisor.engines.executing import Console, spawn

_PATIENCE = 20.0


async def execute(order: Exec, uuid: str, bundle: Path, *, command: Sequence[str]) -> Execution:
    """Run it. `command` starts crun up to its global options. Raises ExecutionError."""
    name = os.urandom(6).hex()
    told, number = bundle / f"exec-{name}.json", bundle / f"exec-{name}.pid"
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        told.write_bytes(msgspec.json.encode(make_process(order, config)))
        console = Console(bundle, order.terminal) if order.terminal is not None else None
    except OSError as error:
        raise ExecutionError(f"{uuid}: cannot be entered: {error}", Failure.NODE) from error
    more = ["--console-socket", console.path] if console is not None else []
    try:
        return await spawn(
            [*command, "exec", "--pid-file", str(number), "--process", str(told), *more, uuid],
            environment={"PATH": imagelayout.DEFAULT_PATH},
            target=lambda: _read(number),
            console=console,
        )
    finally:
        if console is not None:
            console.close()


async def hold(uuid: str, bundle: Path, *, command: Sequence[str]) -> None:
    """Make the container of a bundle once more, without its gate, and leave it there. Raises ExecutionError."""
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        config.pop("hooks", None)
        (bundle / "config.json").write_bytes(msgspec.json.encode(config))
        null = subprocess.DEVNULL
        made = await asyncio.create_subprocess_exec(
            *command, "create", "--bundle", str(bundle), uuid,
            stdin=null, stdout=null, stderr=null, env={"PATH": imagelayout.DEFAULT_PATH}, cwd="/",
        )  # fmt: skip
        code = await asyncio.wait_for(made.wait(), _PATIENCE)
    except (OSError, TimeoutError) as error:
        raise ExecutionError(f"{uuid}: cannot be kept: {error}", Failure.NODE) from error
    if code != 0:
        raise ExecutionError(f"{uuid}: cannot be kept: crun create ended with {code}", Failure.NODE)


def make_process(order: Exec, config: dict[str, Any]) -> dict[str, Any]:
    """What crun is told, made of what it was told of the container. Raises ExecutionError for an unknown user."""
    process: dict[str, Any] = config["process"]
    names = {name for name, _ in order.environment}
    kept = [one for one in process["env"] if one.partition("=")[0] not in names]
    process |= {
        "args": list(order.command),
        "env": [*kept, *(f"{name}={value}" for name, value in order.environment)],
        "terminal": order.terminal is not None,
    }
    if order.user:
        root = Path(config["root"]["path"])
        files = (confined.read_text_in_root(root, one) for one in ("etc/passwd", "etc/group"))
        account = imagelayout.account(order.user, passwd=next(files), group=next(files))
        process["user"] = {"uid": account.uid, "gid": account.gid, "additionalGids": list(account.groups)}
    return process


def _read(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
