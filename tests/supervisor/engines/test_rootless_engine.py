"""The native engine of an ordinary user: what needs no kernel that allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, EngineSettings, find_engines
from lading.supervisor.engines import rootless_engine as module
from lading.supervisor.engines.rootless_engine import RootlessEngine
from lading.supervisor.rootless import Entered


def settings(place: Path) -> EngineSettings:
    return EngineSettings(
        container_uuid="zzzzz-dz642-rootlessunit000",
        run_directory=str(place),
        cache_directory=str(place / "cache"),
    )


def test_outside_of_its_namespaces_there_is_no_engine(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="not in the namespaces") as caught:
        RootlessEngine(settings(tmp_path))
    assert caught.value.failure is Failure.NODE


async def test_a_gang_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "entered", lambda: Entered(1000, tmp_path))
    engine = RootlessEngine(settings(tmp_path))
    with pytest.raises(ExecutionError, match="cannot run a gang"):
        await engine.create(ContainerSpec(command=("true",), nodes=2))


def test_an_entered_process_has_this_engine_as_native(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Entered(1000, tmp_path)
    monkeypatch.setattr("lading.supervisor.engines.entered", lambda: inside)
    monkeypatch.setattr(module, "entered", lambda: inside)
    assert isinstance(find_engines().make("native", settings(tmp_path)), RootlessEngine)
