from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import (
    GROUP,
    Engine,
    Engines,
    EngineSettings,
    choose_engine,
    command_failure,
    find_engines,
    is_occupied,
)
from lading.supervisor.engines.docker import DockerEngine
from lading.supervisor.engines.native import NativeEngine

SETTINGS = EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c")


def test_the_known_engines_are_those_of_the_entry_points() -> None:
    engines = find_engines()
    ours = {one.name: one for one in entry_points(group=GROUP) if one.module.startswith("lading.")}
    assert {name: one.load() for name, one in engines.by_name.items()} == {
        name: one.load() for name, one in ours.items()
    }
    assert isinstance(engines.make("docker", SETTINGS), DockerEngine)
    engines.preload()


def test_an_engine_of_another_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("class Engine:\n    def __init__(self, settings): pass\n")
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    (tmp_path / "other-1.dist-info" / "entry_points.txt").write_text(
        f"[{GROUP}]\nlxc = other:Engine\n"
    )
    code = (
        "import sys; from lading.supervisor.engines import find_engines; "
        "sys.path.append(sys.argv[1]); print(type(find_engines().make('lxc', None)).__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "other\n"


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
    ("uid", "crun", "has_starter", "chosen"),
    [
        (0, "/x", False, "native"),
        (0, None, True, "native"),
        (0, None, False, "docker"),
        (5, "/x", True, "docker"),
    ],
)
def test_what_auto_means(
    monkeypatch: pytest.MonkeyPatch, uid: int, crun: str | None, has_starter: bool, chosen: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr(shutil, "which", lambda name: crun)
    monkeypatch.setattr("os.access", lambda path, mode: has_starter)
    assert choose_engine() == chosen


def test_a_native_engine_that_was_found_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = find_engines().by_name
    monkeypatch.setattr("os.geteuid", lambda: 5)
    made = Engines(found, has_native=True).make("auto", SETTINGS)
    assert isinstance(made, NativeEngine)
    assert isinstance(Engines(found).make("auto", SETTINGS), DockerEngine)


def test_no_engine_at_all() -> None:
    engines = Engines({})
    engines.preload()
    with pytest.raises(ExecutionError, match="there are: none"):
        engines.make("auto", SETTINGS)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("executable file `x` not found in $PATH", "in the image?"),
        ("open executable: Permission denied", "is it an executable program"),
        ("chdir to /etc/passwd: Not a directory", "is its working directory (--workdir) one"),
        ("exec container process `/x`: Exec format error", "a program for this processor"),
        ("executable file `x` cannot be run: Argument list too long", "in a file (--input)"),
    ],
)
def test_advice_about_a_command_that_cannot_be_started(said: str, advice: str) -> None:
    error = command_failure(said)
    assert error.failure is Failure.USER
    assert error.message.startswith(f"the command cannot be started: {said}; ")
    assert advice in error.message


@pytest.mark.parametrize(("known", "found"), [(None, True), (True, True), (False, False)])
def test_an_engine_may_know_the_places_that_its_image_occupies(
    known: bool | None, found: bool
) -> None:
    engine = SimpleNamespace() if known is None else SimpleNamespace(is_occupied=lambda _: known)
    assert is_occupied(cast(Engine, engine), "/data") is found
