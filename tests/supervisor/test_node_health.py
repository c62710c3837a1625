from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lading.core.containers.container import Container
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.machine import can_report, is_broken, report
from tests.supervisor.supervised import Bench


def of(**attributes: Any) -> Container:
    return Container.from_record({"uuid": "", "command": ["true"], **attributes})


@pytest.mark.parametrize(
    "text",
    [
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
            "Is the docker daemon running?"
        ),
        "cannot connect to the Docker daemon",
        (
            "oci runtime error: starting container process caused: "
            "mounting /x to rootfs at /y: no such file or directory"
        ),
        "grpc: the connection is unavailable",
        "write /var/lib/docker/x: no space left on device",
        "[Errno 28] No space left on device: '/x'",
        "docker cannot load the image: no answer from /run/docker.sock; is the daemon running?",
        "crun could not be run; install the package crun",
        "crun cannot be run ([Errno 2]); install the package crun",
    ],
)
def test_words_of_a_broken_machine(text: str) -> None:
    assert is_broken(ExecutionError(text, Failure.NODE), of())


@pytest.mark.parametrize(
    "text", ["the command cannot be started: executable file `x` not found", "", "exit code 1"]
)
def test_words_of_a_broken_container(text: str) -> None:
    assert not is_broken(ExecutionError(text, Failure.NODE), of())


FULL = "No space left on device"
NO_CRUN = "crun cannot be run"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (f"executable file `{NO_CRUN}` not found", {"command": [NO_CRUN]}),
        (f"open `/x/rootfs/d/{FULL}`: Not a directory", {"mounts": {f"/d/{FULL}": {}}}),
        (f"open `{FULL}`: Not a directory", {"mounts": {f"/x/{FULL}/y": {"kind": "tmp"}}}),
        (f"chdir `/a\n{NO_CRUN}`: Not a directory", {"cwd": f"/a\n{NO_CRUN}"}),
        (f"setenv {FULL}", {"environment": {FULL: ""}}),
    ],
)
def test_names_that_a_user_has_chosen_do_not_count(text: str, chosen: dict[str, Any]) -> None:
    assert is_broken(ExecutionError(text, Failure.NODE), of())
    assert not is_broken(ExecutionError(text, Failure.NODE), of(**chosen))


@pytest.mark.parametrize("failure", [Failure.USER, Failure.IMAGE, Failure.DISK])
def test_faults_of_the_container_do_not_count(failure: Failure) -> None:
    assert not is_broken(ExecutionError(FULL, failure), of())


async def test_the_machine_is_marked(bench: Bench, tmp_path: Path) -> None:
    told = structs.replace(bench.assignment(), lock_directory=str(tmp_path))
    assert can_report(told)
    assert "marked as broken" in await report(told, "why")
    assert (tmp_path / "crunch-run-broken").read_text() == "why\n"
    (tmp_path / "file").touch()
    elsewhere = structs.replace(told, lock_directory=str(tmp_path / "file"))
    assert "cannot be marked" in await report(elsewhere, "why")


async def test_the_hook_is_run_in_place_of_that(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not can_report(bench.assignment())
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 3\n")
    hook.chmod(0o755)
    told = structs.replace(
        bench.assignment(), lock_directory=str(tmp_path), broken_node_hook=str(hook)
    )
    assert (await report(told, "why")).endswith("hook ended with 3")
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "crunch-run-broken").exists()
    missing = structs.replace(told, broken_node_hook="/no/such/hook")
    assert "cannot be run" in await report(missing, "why")
    hook.write_text("#!/bin/sh\nexec sleep 100\n")
    assert "was ended" in await report(told, "why", hook_time=0.01)
