"""What the dispatcher of `lading up` is told."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from lading.config.site import load
from lading.wiring.directory import DataDirectory
from lading.wiring.dispatcher import holder_of, settings, template, until_listening


def test_the_loop_follows_the_configuration() -> None:
    config = load(
        overrides={
            "Containers": {
                "OnlyDispatcher": True,
                "MinRetryPeriod": "7s",
                "PreemptiblePartitions": ["spot"],
            },
            "Local": {"Scratch": 9},
        }
    )
    assert settings(config, "slurm").preemptible_partitions == ("spot",)
    assert settings(config, "local").preemptible_partitions == ()
    found = settings(config, "local")
    assert (found.only, found.min_retry, found.plans_disk) == (True, 7.0, True)
    assert not settings(load(), "local").plans_disk


def test_no_token_is_in_the_template(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    secrets = directory.secrets(entropy=os.urandom(400))
    config = directory.config(secrets, address="a:1")
    assert secrets.dispatch_token_secret not in repr(template(config, address="a:1", insecure=True))


async def test_the_server_is_waited_for(tmp_path: Path) -> None:
    socket, called = tmp_path / "s", asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        writer.close()

    waiting = asyncio.create_task(until_listening(socket, pause=0.0))
    server = await asyncio.start_unix_server(accept, socket)
    async with server:
        await asyncio.wait_for(waiting, 60)
        await asyncio.wait_for(called.wait(), 60)


async def test_a_server_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    await until_listening(tmp_path / "none", patience=0.01, pause=0.0)


def test_the_holder_of_a_lease_is_one_directory_of_one_machine(tmp_path: Path) -> None:
    """Two mounts of one path, as two machines of one name, are two holders."""
    (tmp_path / "data").mkdir()
    (tmp_path / "other").mkdir()
    own = holder_of(DataDirectory(tmp_path / "data"))
    assert holder_of(DataDirectory(tmp_path / "data")) == own
    assert re.fullmatch(rf".+:{re.escape(str(tmp_path / 'data'))} \[[0-9a-f]{{8}}\]", own)
    # Another directory under the same path.
    (tmp_path / "data").rename(tmp_path / "moved")
    (tmp_path / "other").rename(tmp_path / "data")
    assert holder_of(DataDirectory(tmp_path / "data")) != own
