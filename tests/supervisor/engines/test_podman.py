from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import EngineSettings, find_engines
from lading.supervisor.engines.podman import make_engine


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    socket = str(tmp_path / "none.sock")
    return EngineSettings(
        container_uuid="u", run_directory="/r", cache_directory="/c", podman_socket=socket
    )


async def test_a_service_that_is_not_there(settings: EngineSettings) -> None:
    engine = find_engines().make("podman", settings)
    with pytest.raises(
        ExecutionError, match="podman cannot be reached: no answer from .*none.sock"
    ) as caught:
        await engine.check()
    assert caught.value.failure is Failure.NODE
    with pytest.raises(ExecutionError, match="podman cannot remove"):
        await engine.remove()


def test_it_has_a_socket_of_its_own(settings: EngineSettings) -> None:
    assert make_engine(settings).sees_private_mounts is False
