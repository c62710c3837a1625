from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Engines, EngineSettings, choose_engine, find_engines
from lading.supervisor.engines.docker import DockerEngine
from lading.supervisor.engines.native import NativeEngine

SETTINGS = EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c")


def test_engines_are_found_by_entry_point() -> None:
    engines = find_engines()
    assert {"native", "docker"} <= set(engines.found)
    assert isinstance(engines.make("docker", SETTINGS), DockerEngine)
    engines.preload()


def test_the_engine_that_is_named_is_imported() -> None:
    code = (
        "import sys; from lading.supervisor.engines import find_engines; "
        "find_engines().preload(sys.argv[1]);"
        "sys.exit('aiodocker' in sys.modules)"
    )
    for name, imports in (("native", 0), ("docker", 1), ("podman", 1), ("lxc", 0)):
        assert subprocess.run([sys.executable, "-c", code, name], check=False).returncode == imports


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(
        ExecutionError, match="'lxc' is not installed; there are: docker, native"
    ) as caught:
        find_engines().make("lxc", SETTINGS)
    assert caught.value.failure is Failure.NODE


@pytest.mark.parametrize(
    ("uid", "program", "chosen"), [(0, "/x", "native"), (0, None, "docker"), (5, "/x", "docker")]
)
def test_what_auto_means(
    monkeypatch: pytest.MonkeyPatch, uid: int, program: str | None, chosen: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr(shutil, "which", lambda name: program)
    assert choose_engine() == chosen


def test_a_native_engine_that_was_found_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = find_engines().found
    monkeypatch.setattr("os.geteuid", lambda: 5)
    made = Engines(found, has_native=True).make("auto", SETTINGS)
    assert isinstance(made, NativeEngine)
    assert isinstance(Engines(found).make("auto", SETTINGS), DockerEngine)


def test_no_engine_at_all() -> None:
    engines = Engines({})
    engines.preload()
    with pytest.raises(ExecutionError, match="there are: none"):
        engines.make("auto", SETTINGS)
