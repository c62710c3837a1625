from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.core.scheduling.instance_lifecycle import InstancePhase
from lading.dispatch.fleets.cloud.drivers.driver import Instance
from lading.dispatch.fleets.cloud.machine import CloudMachine
from lading.dispatch.fleets.cloud.runner import RunnerArchive
from lading.dispatch.fleets.cloud.vm_bootstrap import SshBootstrap

from .ssh import Server, ssh_server
from .test_agent import archive

GOOD = {
    "python": [3, 9, 2], "machine": "x86_64", "libc": "2.36", "engines": ["crun"], "root": True,
    "runners": [],
}  # fmt: skip


class Place:
    """A server, and a VM that is there."""

    def __init__(self, server: Server, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("abc")
        (tmp_path / "server.pem").write_text("CERTIFICATE")
        packed, digest = archive(tmp_path)
        self.server, self.path = server, tmp_path
        self.runner = RunnerArchive(packed, digest, "x86_64", "2.36")
        self.machine = CloudMachine(
            key="vm",
            type="t",
            secret="abc",
            instance=Instance(id="i", address="127.0.0.1"),
            phase=InstancePhase.BOOTING,
        )
        self.reach = SshBootstrap(
            key=server.target.key,
            directory=str(tmp_path / "vm"),
            probe_command="true",
            engine="podman",
            runner=lambda: self.runner,
            certificate=tmp_path / "server.pem",
            secret_path=str(tmp_path / "secret"),
            port=server.target.port,
            connect_timeout=10.0,
        )

    async def list(self) -> list[str]:
        async with self.reach(self.machine, lambda _: None) as link:
            serving = asyncio.create_task(link.serve())
            answer = await link.request("list", timeout=10.0)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            return list(answer.message["dead"])


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with ssh_server() as server:
        yield Place(server, tmp_path)


async def test_from_an_address_to_an_agent_that_answers(place: Place) -> None:
    assert await place.list() == ["d"]
    assert Path(place.reach.certificate_path).read_text() == "CERTIFICATE"
    assert place.machine.pinned.startswith("ssh-ed25519 ")
    assert sum(" install " in one for one in place.server.ran) == 1


async def test_the_runner_is_copied_once_and_the_secret_asked_for_once(place: Place) -> None:
    await place.list()
    place.server.ran.clear()
    (place.path / "secret").unlink()
    assert await place.list() == ["d"]
    assert not any(" install " in one for one in place.server.ran)


async def test_the_warm_parent_is_told_the_engine(place: Place) -> None:
    await place.list()
    (started,) = [one for one in place.server.ran if " serve " in one]
    assert started.endswith(f" serve {place.path}/vm {place.runner.hash} podman")
    told = json.loads((place.path / "vm/run/arguments").read_text())
    assert told[told.index("--engine") + 1] == "podman"


async def test_nothing_is_sent_to_one_that_does_not_know_the_secret(place: Place) -> None:
    (place.path / "secret").write_text("other")
    with pytest.raises(Unavailable, match="does not know the secret"):
        await place.list()
    assert len(place.server.ran) == 1
    assert place.machine.pinned == ""


async def test_a_machine_that_boots_is_waited_for(place: Place) -> None:
    place.reach = dataclasses.replace(place.reach, probe_command="echo starting; false")
    with pytest.raises(
        Unavailable, match="it is still booting: 'echo starting; false' ended with 1: starting"
    ):
        await place.list()


async def test_a_probe_that_has_succeeded_is_not_run_again(place: Place) -> None:
    place.reach = dataclasses.replace(place.reach, probe_command="echo probing")
    await place.list()
    assert sum("probing" in one for one in place.server.ran) == 1
    place.server.answers["probing"] = 1, "degraded"
    assert await place.list() == ["d"]
    assert sum("probing" in one for one in place.server.ran) == 1


async def test_a_probe_that_fails_later_does_not_count_where_containers_run(place: Place) -> None:
    place.reach = dataclasses.replace(place.reach, probe_command="echo probing")
    await place.list()
    place.server.answers["probing"] = 1, "degraded"
    (Path(place.reach.directory) / "run" / "some-container").mkdir(parents=True, exist_ok=True)
    told: list[tuple[str, str]] = []
    place.machine.booted = False
    place.reach = dataclasses.replace(
        place.reach, passed=lambda phase, found: told.append((phase, found))
    )
    assert await place.list() == ["d"]
    assert ("boot probe", "echo probing fails now, it had succeeded before") in told
    # Another VM, or the same one started again, has to boot.
    place.machine.booted = False
    for mark in Path(place.reach.directory).glob("booted~*"):
        mark.unlink()
    with pytest.raises(
        Unavailable, match="it is still booting: 'echo probing' ended with 1: degraded"
    ):
        await place.list()


async def test_an_idle_vm_has_to_pass_the_probe_after_a_restart(place: Place) -> None:
    place.reach = dataclasses.replace(place.reach, probe_command="echo probing")
    await place.list()
    place.server.answers["probing"] = 1, "degraded"
    place.machine.booted = False
    # Of the stub of an agent; one of Debian has directories of containers there.
    (Path(place.reach.directory) / "run" / "arguments").unlink()
    with pytest.raises(Unavailable, match="'echo probing' ended with 1: degraded"):
        await place.list()
    del place.server.answers["probing"]
    assert await place.list() == ["d"]


async def test_a_directory_that_cannot_be_written_is_said(place: Place) -> None:
    place.server.answers["umask 077"] = 1, "Read-only file system"
    with pytest.raises(
        Unavailable, match="cannot be written on the instance: Read-only file system"
    ):
        await place.list()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"python": [3, 8, 1]}, r"its Python is 3\.8\.1; its image needs 3\.9 or later"),
        (
            {"machine": "aarch64"},
            "it is a aarch64 machine, and the runner of this dispatcher for x86_64",
        ),
        ({"libc": "2.28"}, r"its C library is 2\.28; the runner of this dispatcher needs 2\.36"),
        ({"engines": []}, "it has no container engine; its image needs crun, docker or podman"),
        ({"root": False}, "crun needs root there"),
    ],
)
async def test_a_machine_that_cannot_run_supervisors_says_why(
    place: Place, told: dict[str, object], why: str
) -> None:
    place.server.answers[" check "] = 0, json.dumps(GOOD | told)
    with pytest.raises(Unavailable, match=why):
        await place.list()


async def test_a_machine_without_python_says_so(place: Place) -> None:
    place.server.answers[" check "] = 127, "sh: python3: not found"
    with pytest.raises(
        Unavailable,
        match="there is no python3 on the instance; its image needs Python 3.9 or later",
    ):
        await place.list()
    place.server.answers[" check "] = 1, "SyntaxError"
    with pytest.raises(
        Unavailable, match=r"its Python does not run our agent \(exit code 1\): SyntaxError"
    ):
        await place.list()


async def test_what_cannot_be_copied_is_said(place: Place) -> None:
    place.server.answers[" install "] = 3, '{"op":"refused","error":"damaged"}'
    with pytest.raises(Unavailable, match="the runner could not be copied: .*damaged"):
        await place.list()
    del place.server.answers[" install "]
    place.server.answers["umask 022"] = 1, "No space left on device"
    with pytest.raises(
        Unavailable, match="certificate could not be copied: No space left on device"
    ):
        await place.list()


async def test_without_a_certificate_none_is_copied(place: Place) -> None:
    place.reach = dataclasses.replace(place.reach, certificate=None)
    assert place.reach.certificate_path == ""
    await place.list()
    assert not any("umask 022" in one for one in place.server.ran)
