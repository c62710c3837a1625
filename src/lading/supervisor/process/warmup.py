"""Warm-up: run no-op containers so that forks inherit warm bytecode and caches.

Python specialises code and fills its caches (specialised instructions, compiled patterns, type
decoders) as code runs. A supervisor runs everything once, in a newly forked process: its
specialisation is lost with it, and each page that it writes is copied first. So the forkserver
runs a few containers before it forks any: the real steps, the real HTTP client over a Unix socket,
an engine that starts nothing, and a server that accepts everything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lading.core.data import locator as locators
from lading.core.errors import ExecutionError
from lading.core.images import Account, ImageProcess
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead
from lading.process import tree_removal
from lading.supervisor import linux
from lading.supervisor.engines import (
    ContainerSpec,
    EngineSettings,
    Exec,
    Execution,
    Exit,
    ImageSource,
)
from lading.supervisor.engines.bundle import Bundle, make_config
from lading.supervisor.lifecycle.driver import supervise
from lading.supervisor.supervisor_config import SupervisorConfig

# Python 3.11 adapts a function by its eighth call.
_TIMES = 12
_NAME = "rehearsal-"
_UUID = "zzzzz-dz642-000000000000000"
_PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
_RECORD = {
    "uuid": _UUID,
    "state": "Locked",
    "command": ["true"],
    "container_image": _PDH,
    "cwd": ".",
    "environment": {},
    "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
    "output_path": "/out",
    "output_glob": [],
    "runtime_constraints": {"API": False, "ram": 64 << 20, "vcpus": 1},
    "scheduling_parameters": {"max_run_time": 0},
    "secret_mounts_md5": "99914b932bd37a50b983c5e7c90ae93b",
    "runtime_status": {},
    "output": None,
    "priority": 1,
    "gateway_auth_secret": "none",
}


@contextmanager
def _stage(run: Path) -> Iterator[tuple[Path, str]]:
    """A directory for this process in `run`, and a short path of it. Directories of killed
    processes are removed.
    """
    for left in run.glob(f"{_NAME}*"):
        pid = left.name.removeprefix(_NAME)
        if not (pid.isdecimal() and linux.is_running(int(pid))):
            tree_removal.remove(left)
    stage = run / f"{_NAME}{os.getpid()}"
    stage.mkdir()
    try:
        descriptor = os.open(stage, os.O_PATH | os.O_CLOEXEC)
        try:
            # The address of a Unix socket has at most 107 bytes (unix(7)).
            yield stage, f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    finally:
        tree_removal.remove(stage)


async def warm_up(run: Path) -> None:
    """Run the no-op containers in a temporary directory in `run`. Raises OSError when it cannot be
    made.
    """
    with _stage(run) as (stage, short):
        socket = f"{short}/api.sock"
        serving: list[asyncio.Task[None]] = []

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving.append(asyncio.create_task(_serve(reader, writer)))

        server = await asyncio.start_unix_server(serve, socket)
        try:
            for number in range(_TIMES):
                directory = stage / "run" / str(number)
                directory.mkdir(parents=True)
                config = SupervisorConfig(
                    container_uuid=_UUID,
                    supervisor_token="v2/zzzzz-gj3su-000000000000000/none",
                    run_directory=str(directory),
                    cache_directory=str(stage / "cache"),
                    api_socket=socket,
                    engine="rehearsal",
                    api_host="localhost",
                )
                await supervise(config, engines=lambda _, settings: _WarmupEngine(settings))
        finally:
            server.close()
            await asyncio.gather(*serving)
            await server.wait_closed()


class _WarmupEngine:
    """Implements lading.supervisor.engines.Engine; starts nothing."""

    sees_private_mounts = True

    def __init__(self, settings: EngineSettings) -> None:
        self.notes: list[str] = []
        self._run = Path(settings.run_directory)

    @property
    def pid(self) -> int | None:
        return None

    async def check(self) -> str:
        return "rehearsal"

    async def prepare(self, image: ImageSource) -> None:
        """Does nothing."""

    async def create(self, spec: ContainerSpec) -> None:
        bundle = Bundle(
            rootfs="/",
            process=ImageProcess(
                arguments=spec.command, environment=(("PATH", "/bin"),), cwd="/", user=""
            ),
            account=Account(0, 0),
            binds=spec.binds,
            gate="",
            machine="x86_64",
        )
        (self._run / "config.json").write_bytes(msgspec.json.encode(make_config(bundle)))

    async def run(self, *, stop: asyncio.Event, stop_grace: float) -> Exit:
        """Ends at once."""
        del stop, stop_grace
        return Exit(code=0)

    async def abort(self) -> None:
        """Does nothing."""

    @property
    def first(self) -> int | None:
        return None

    async def execute(self, order: Exec) -> Execution:
        raise ExecutionError(f"nothing can be run in a warm-up: {order.command[0]}")

    async def hold(self) -> None:
        """Does nothing."""

    async def kill(self) -> None:
        """Does nothing."""

    async def remove(self) -> None:
        """Does nothing."""


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = http_head.parse_request(await reader.readuntil(http_head.END))
            length = int(head.get("content-length") or 0)
            await reader.readexactly(length)
            body = _answer(head.target, length)
            fields = (("Content-Type", "application/json"), ("Content-Length", str(len(body))))
            writer.write(HttpHead("HTTP/1.1 200 OK", fields).encode() + body)
    except asyncio.IncompleteReadError:
        writer.close()
        await writer.wait_closed()


def _answer(target: str, length: int) -> bytes:
    if "/auth" in target:
        return b'{"uuid":"zzzzz-gj3su-000000000000000","api_token":"none"}'
    if "/containers" in target:
        return msgspec.json.encode(_RECORD)
    if "/collections" in target:
        return msgspec.json.encode(
            {"uuid": "zzzzz-4zz18-000000000000000", "portable_data_hash": _PDH}
        )
    digest = target[1:33] or locators.EMPTY_HASH
    return f"{digest}+{length}+A{'0' * 40}@ffffffff\n".encode()
