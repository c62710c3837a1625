"""A command beside the container's own, by `crun exec`.

crun gets the configuration of the container's own command with other arguments: the same
capabilities and system calls, no new privileges, the container's environment and no other. It is
passed in a file, because command lines are visible to others on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lading import confined
from lading.core import images
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Exec, Execution
from lading.supervisor.engines.executing import Console, spawn
from lading.supervisor.engines.streams import null

# Seconds for one crun command.
_PATIENCE = 20.0
# Seconds between two looks at the name of a process.
_LOOK_TIME = 0.005
# A shell that waits for its input to end.
_WAIT = ["/bin/sh", "-c", "read line"]


async def execute(order: Exec, uuid: str, bundle: Path, *, command: Sequence[str]) -> Execution:
    """Run it. `command` starts crun up to its global options. Raises ExecutionError."""
    name = os.urandom(6).hex()
    process_file, number = bundle / f"exec-{name}.json", bundle / f"exec-{name}.pid"
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        process_file.write_bytes(msgspec.json.encode(make_process(order, config)))
        console = Console(bundle, order.terminal) if order.terminal is not None else None
    except OSError as error:
        raise ExecutionError(f"{uuid}: cannot be entered: {error}", Failure.NODE) from error
    more = ["--console-socket", console.path] if console is not None else []
    try:
        return await spawn(
            [
                *command,
                "exec",
                "--pid-file",
                str(number),
                "--process",
                str(process_file),
                *more,
                uuid,
            ],
            environment={"PATH": images.DEFAULT_PATH},
            target=lambda: _read(number),
            console=console,
        )
    finally:
        if console is not None:
            console.close()


async def hold(uuid: str, bundle: Path, *, command: Sequence[str]) -> int:
    """Make the container of a bundle once more, without its gate, and leave it there. Raises
    ExecutionError.

    A container with a user namespace can be entered only while a program of it runs: a shell that
    waits until the returned descriptor is closed. In other cases none is started, and -1 is
    returned.
    """
    reading, writing = -1, -1
    try:
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        # The gate must not wait again.
        config.pop("hooks", None)
        if "uidMappings" in config.get("linux", ()):
            config["process"]["args"] = _WAIT
            reading, writing = os.pipe2(os.O_CLOEXEC)
        (bundle / "config.json").write_bytes(msgspec.json.encode(config))
        await _run(command, "create", "--bundle", str(bundle), uuid, stdin=reading)
        if reading >= 0:
            await _run(command, "start", uuid)
            await _started(uuid, bundle)
    except BaseException as error:
        if writing >= 0:
            os.close(writing)
        if not isinstance(error, OSError | TimeoutError):
            raise
        raise ExecutionError(f"{uuid}: cannot be kept: {error}", Failure.NODE) from error
    finally:
        if reading >= 0:
            os.close(reading)
    return writing


async def _run(command: Sequence[str], verb: str, *arguments: str, stdin: int = -1) -> None:
    """Run a crun command. Raises OSError."""
    nothing = null()
    made = await asyncio.create_subprocess_exec(
        *command,
        verb,
        *arguments,
        stdin=stdin if stdin >= 0 else nothing,
        stdout=nothing,
        stderr=nothing,
        env={"PATH": images.DEFAULT_PATH},
        cwd="/",
    )
    code = await asyncio.wait_for(made.wait(), _PATIENCE)
    if code != 0:
        raise OSError(f"crun {verb} ended with {code}; has the image a /bin/sh?")


async def _started(uuid: str, bundle: Path) -> None:
    """Wait until crun has become the shell: only then can the container be entered. Raises OSError,
    TimeoutError.
    """
    status = bundle.parent / "crun" / uuid / "status"
    pid = msgspec.json.decode(status.read_bytes())["pid"]
    async with asyncio.timeout(_PATIENCE):
        while _name(pid).startswith("crun"):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(_LOOK_TIME)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def make_process(order: Exec, config: dict[str, Any]) -> dict[str, Any]:
    """Process of `crun exec`, made from the container's. Raises ExecutionError for an unknown
    user.
    """
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
        account = images.account(order.user, passwd=next(files), group=next(files))
        process["user"] = {
            "uid": account.uid,
            "gid": account.gid,
            "additionalGids": list(account.groups),
        }
    return process


def _read(path: Path) -> int | None:
    # crun has not written the number yet.
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
