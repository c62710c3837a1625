"""The native engine of an ordinary user: what needs no kernel that allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import ContainerSpec, EngineSettings, find_engines
from lading.supervisor.engines import rootless_engine as module
from lading.supervisor.engines.rootless_engine import RootlessEngine, with_limits
from lading.supervisor.limits.user_limits import UserLimits
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


def test_limits_without_a_control_group_are_in_the_bundle() -> None:
    def bundle() -> dict[str, object]:
        return {
            "process": {"rlimits": []},
            "mounts": [
                {"destination": "/dev/shm", "type": "tmpfs", "options": ["nosuid"]},
                {"destination": "/dev/shm", "type": "bind", "options": []},
            ],
        }

    assert with_limits(bundle(), UserLimits()) == bundle()
    limited = with_limits(bundle(), UserLimits(ram=4096, processes=9))
    assert limited["process"] == {"rlimits": [{"type": "RLIMIT_NPROC", "hard": 9, "soft": 9}]}
    assert [one["options"] for one in limited["mounts"]] == [["nosuid", "size=4096"], []]
