"""What crun is told of a command beside the container's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import Exec, Size
from lading.supervisor.engines.executing import execute, hold, make_process


def config(root: Path) -> dict[str, Any]:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("me:x:5:6::/:/bin/sh\n")
    process = {
        "args": ["own"], "env": ["A=1", "TERM=old"], "user": {"uid": 0, "gid": 0},
        "terminal": False, "capabilities": {"bounding": ["CAP_KILL"]},
        "noNewPrivileges": True, "cwd": "/out",
    }  # fmt: skip
    return {"process": process, "root": {"path": str(root)}}


def test_it_may_do_what_the_command_may(tmp_path: Path) -> None:
    order = Exec(command=("x", "y"), environment=(("TERM", "vt100"),), terminal=Size())
    made = make_process(order, config(tmp_path))
    assert (made["args"], made["env"], made["terminal"]) == (
        ["x", "y"],
        ["A=1", "TERM=vt100"],
        True,
    )
    assert (made["capabilities"], made["noNewPrivileges"], made["cwd"]) == (
        {"bounding": ["CAP_KILL"]},
        True,
        "/out",
    )
    assert made["user"] == {"uid": 0, "gid": 0}


def test_another_user(tmp_path: Path) -> None:
    made = make_process(Exec(command=("x",), user="me"), config(tmp_path))
    assert made["user"] == {"uid": 5, "gid": 6, "additionalGids": []}
    with pytest.raises(ExecutionError, match="nobody-there"):
        make_process(Exec(command=("x",), user="nobody-there"), config(tmp_path))


def test_a_container_with_one_id_is_entered_as_its_root(tmp_path: Path) -> None:
    single = {"linux": {"uidMappings": [{"containerID": 0, "hostID": 0, "size": 1}]}}
    made = make_process(Exec(command=("x",), user="me"), {**config(tmp_path), **single})
    assert made["user"] == {"uid": 0, "gid": 0, "additionalGids": []}


async def test_a_container_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="cannot be entered"):
        await execute(Exec(command=("x",)), "uuid", tmp_path / "none", command=["crun"])


async def test_a_container_that_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="cannot be kept"):
        await hold("uuid", tmp_path / "none", command=["crun"])
    (tmp_path / "config.json").write_text('{"hooks": {}}')
    with pytest.raises(ExecutionError, match="ended with 1"):
        await hold("uuid", tmp_path, command=["/bin/false"])
    assert (tmp_path / "config.json").read_text() == "{}"
