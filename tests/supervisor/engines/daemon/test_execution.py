"""Commands by a daemon's exec calls, where it fails; what they do is in
src/lading/testing/conformance/engines.py.
"""

from __future__ import annotations

from typing import Any, cast

import aiohttp
import pytest
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.execs import Exec as DockerExec

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Exec, Size
from lading.supervisor.engines.daemon.execution import DockerExecution, execute, hold


class Refusing:
    """A container of a daemon that raises."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def exec(self, *given: Any, **more: Any) -> None:
        raise self._error

    async def commit(self, **more: Any) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (DockerError(409, "it is not running"), Failure.USER),
        (aiohttp.ClientError("gone"), Failure.NODE),
    ],
)
async def test_a_daemon_that_refuses(error: Exception, failure: Failure) -> None:
    with pytest.raises(ExecutionError) as caught:
        await execute(Exec(command=("x",)), cast(DockerContainer, Refusing(error)))
    assert caught.value.failure is failure
    container = cast(DockerContainer, Refusing(error))
    with pytest.raises(ExecutionError):
        await hold(cast(Docker, None), container, {}, name="uuid", image="kept")


class Daemon:
    """A daemon with one container; it is its own collection of containers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def containers(self) -> Daemon:
        return self

    async def commit(self, *, repository: str, **more: Any) -> None:
        self.calls.append(f"commit {repository}")

    async def delete(self, **more: Any) -> None:
        self.calls.append("delete")

    async def create(self, config: dict[str, Any], *, name: str) -> Daemon:
        self.calls.append(f"create {name} {config['Image']} {config['User']}")
        return self

    async def start(self) -> None:
        self.calls.append("start")


async def test_a_container_is_held_by_one_of_its_files() -> None:
    daemon = Daemon()
    docker, container = cast(Docker, daemon), cast(DockerContainer, daemon)
    successor = await hold(docker, container, {"User": "7"}, name="uuid", image="files")
    assert successor is container
    assert daemon.calls == ["commit files", "delete", "create uuid files 7", "start"]


class Vanished:
    """An exec whose container is gone."""

    async def inspect(self) -> dict[str, Any]:
        raise DockerError(404, "no such exec")

    async def resize(self, **size: int) -> None:
        raise DockerError(404, "no such exec")


async def test_one_whose_container_is_gone_has_ended() -> None:
    execution = DockerExecution(cast(DockerExec, Vanished()))
    assert await execution.wait() == 1
    assert await execution.read() == (1, b"")
    await execution.write(b"x")
    await execution.resize(Size())
    await execution.signal(15)
    await execution.close()
    await execution.close()
