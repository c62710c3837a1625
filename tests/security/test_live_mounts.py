"""Live mounts of directories of users: a task that wants more of the machine than was offered."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.stranger import Stranger
from tests.system.cluster import running_cluster

pytestmark = pytest.mark.system
TASKS = "/ga4gh/tes/v1/tasks"
# An id of no user of the machine.
OWNER = 43210


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("live")
    for name in ("shared", "readable", "roots"):
        (made / name).mkdir()
        (made / name / "file").write_text("from outside\n")
    (made / "secret").mkdir()
    (made / "secret" / "file").write_text("secret")
    (made / "shared" / "link").symlink_to(made / "secret")
    (made / "shared" / "pipe").mkdir()
    os.mkfifo(made / "shared" / "pipe" / "fifo")
    for place in (made / "shared", made / "shared" / "file", made / "shared" / "pipe"):
        os.chown(place, OWNER, OWNER)
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Stranger]:
    roots = {
        "/shared": "Write: true",
        "/readable": "Write: false",
        "/roots": "Write: true",
        "/bobs": "Users: [bob]",
    }
    text = "".join(
        f"    {name}: {{Path: {root}{name}, Live: true, {more}}}\n" for name, more in roots.items()
    )
    place = tmp_path_factory.mktemp("mounts") / "data"
    with running_cluster(place, "TES:\n  FileRoots:\n" + text) as cluster:
        programs = ("sh", "cat", "cp", "chmod", "ln", "mknod", "stat", "ls")
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *programs)
        yield Stranger(cluster)


def run(site: Stranger, url: str, script: str, *, type: str = "DIRECTORY", **more: Any) -> Any:
    """A task with a live input at /in, once it has ended."""
    task = {
        "executors": [{"image": "tools:1", "command": ["sh", "-c", script]}],
        "inputs": [{"path": "/in", "url": url, "type": type}],
        **more,
    }
    made = site.send("POST", TASKS, task, token=site.admin)
    assert made.status == 200, made.text
    deadline = time.monotonic() + 60
    while True:
        path = f"{TASKS}/{made.json['id']}?view=FULL"
        found = site.send("GET", path, token=site.admin).json
        if found["state"] not in ("QUEUED", "INITIALIZING", "RUNNING"):
            return found
        assert time.monotonic() < deadline, str(found)
        time.sleep(0.1)


def told(found: Any) -> str:
    """What a task says in its system logs."""
    return " ".join(found["logs"][-1].get("system_logs", []))


@pytest.mark.attack("leads a live mount out of its root by a symbolic link that a task made")
def test_links(site: Stranger, root: Path) -> None:
    assert run(site, "file:///shared", "ln -s /etc /in/etc; ln -s .. /in/up")["state"] == "COMPLETE"
    for path in ("link", "etc", "up", "up/secret"):
        found = run(site, f"file:///shared/{path}", "ls /in; cat /in/file")
        assert found["state"] == "SYSTEM_ERROR"
        assert "link" in told(found)
    # Within the container a link leads to the container's own files.
    found = run(site, "file:///shared", "cat /in/link/file || echo nothing there")
    assert found["logs"][0]["logs"][0]["stdout"] == "nothing there\n"


@pytest.mark.attack("leaves a program that runs as root, or a device, in a live directory")
def test_programs_of_root(site: Stranger, root: Path) -> None:
    script = "cp /bin/sh /in/sh && chmod 4755 /in/sh; mknod /in/disk b 8 0 && echo made"
    found = run(site, "file:///shared", script)
    assert "made" not in found["logs"][0]["logs"][0]["stdout"]
    assert (root / "shared" / "sh").stat().st_uid == OWNER
    found = run(site, "file:///roots", "echo x >/in/x")
    assert (found["state"], "belongs to root" in told(found)) == ("SYSTEM_ERROR", True)
    assert not (root / "roots" / "x").exists()


@pytest.mark.attack("writes to a live directory that is offered for reading, or to a pipe of it")
def test_reading_only(site: Stranger, root: Path) -> None:
    found = run(site, "file:///readable", "cat /in/file; echo x >/in/x")
    assert found["state"] == "EXECUTOR_ERROR"
    assert found["logs"][0]["logs"][0]["stdout"] == "from outside\n"
    assert not (root / "readable" / "x").exists()
    found = run(site, "file:///shared/pipe/fifo", "true", type="FILE")
    assert found["state"] == "SYSTEM_ERROR"


@pytest.mark.attack("mounts a live directory of another user, or makes one writable")
def test_mounts_of_others(site: Stranger) -> None:
    request = {
        "command": ["true"],
        "container_image": "tools:1",
        "output_path": "/out",
        "runtime_constraints": {"ram": 1, "vcpus": 1},
        "state": "Committed",
        "priority": 1,
    }
    for mount in (
        {"root": "/bobs"}, {"root": "/", "path": "etc"}, {"root": "/etc"},
        {"root": "/shared", "path": "../secret"}, {"root": "/shared/pipe"},
    ):  # fmt: skip
        mounts = {"/out": {"kind": "tmp", "capacity": 0}, "/in": {"kind": "live", **mount}}
        path = "/arvados/v1/container_requests"
        reply = site.send("POST", path, {**request, "mounts": mounts}, token=site.admin)
        assert (reply.status, "Mounts [/in]" in reply.text) == (422, True), reply.text
    mounts["/in"] = {"kind": "live", "root": "/readable", "writable": True}
    reply = site.send("POST", path, {**request, "mounts": mounts}, token=site.admin)
    assert (reply.status, "inputs only" in reply.text) == (422, True), reply.text
