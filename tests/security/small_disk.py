"""A data directory on a small file system of its own, and a `lading up` there."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster

_ENDS = ("Complete", "Cancelled")
PROGRAMS = ("sh", "dd", "sleep", "cat", "rm", "mkdir", "fallocate")


@contextmanager
def small_disk(
    *, size: int, inodes: int = 0, features: str = "", options: str = ""
) -> Iterator[Path]:
    """An ext4 of so many MiB in an image file, mounted."""
    need_root()
    need_program("mkfs.ext4")
    with tempfile.NamedTemporaryFile(prefix="ls-", suffix=".img") as image:
        image.truncate(size << 20)
        more = [*(["-N", str(inodes)] if inodes else []), *(["-O", features] if features else [])]
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", *more, image.name], check=True)
        with mounted("-o", ",".join(one for one in ("loop", options) if one), image.name) as point:
            yield point


@contextmanager
def memory_disk(*, size: int) -> Iterator[Path]:
    """As `small_disk`, a tmpfs."""
    need_root()
    with mounted("-t", "tmpfs", "-o", f"size={size}m", "tmpfs") as point:
        yield point


@contextmanager
def mounted(*arguments: str) -> Iterator[Path]:
    """A mount at a new directory."""
    # Not pytest's own: other sessions tidy those up.
    point = Path(tempfile.mkdtemp(prefix="ls-"))
    try:
        subprocess.run(["mount", *arguments, str(point)], check=True, capture_output=True)
        try:
            yield point
        finally:
            # What ended a moment ago may still hold it.
            until = time.monotonic() + 10
            umount = ["umount", str(point)]
            while subprocess.run(umount, check=False, capture_output=True).returncode:
                assert time.monotonic() < until, f"{point} is still in use"
                time.sleep(0.1)
    finally:
        point.rmdir()


@contextmanager
def cluster_on(disk: Path, **containers: object) -> Iterator[Cluster]:
    """A cluster whose data is on that disk, with an image `tools:1`; `containers` are keys of its
    configuration.
    """
    with running_cluster(
        disk / "data", json.dumps({"Containers": {"StopGracePeriod": "30s", **containers}})
    ) as cluster:
        cluster.lading("image", "add", "--name", "tools:1", "--from-host", *PROGRAMS)
        try:
            yield cluster
        except BaseException:
            # An attack that was not held would go on after the test.
            for pid in cluster.pids("supervisor"):
                os.kill(pid, signal.SIGTERM)
            raise


def submit(cluster: Cluster, script: str, *more: str) -> str:
    """The uuid of a request that runs a shell script."""
    command = ["run", "--json", "--detach", "--image", "tools:1", *more, "--", "sh", "-c", script]
    return str(json.loads(cluster.lading(*command).stdout)["uuid"])


def show(cluster: Cluster, uuid: str) -> dict[str, Any]:
    """A request with its container."""
    shown: dict[str, Any] = json.loads(cluster.lading("request", "show", "--json", uuid).stdout)
    return shown


def begun(cluster: Cluster, uuid: str) -> dict[str, Any]:
    """The container of a request once it runs."""
    return _reached(cluster, uuid, ("Running", *_ENDS), 60)


def ended(cluster: Cluster, uuid: str, *, seconds: float = 60) -> dict[str, Any]:
    """The container of a request once it has ended."""
    return _reached(cluster, uuid, _ENDS, seconds)


def _reached(cluster: Cluster, uuid: str, states: Sequence[str], seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while True:
        container = show(cluster, uuid)["container"]
        if container["state"] in states:
            return dict(container)
        assert time.monotonic() < until, (
            f"it still is {container['state']}: {container.get('runtime_status')}"
        )
        time.sleep(0.2)


@dataclass
class Writer:
    """Somebody else, who changes a record again and again, and reads it."""

    cluster: Cluster
    answers: list[int] = field(default_factory=list)
    slowest: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        host, _, port = self.cluster.address.rpartition(":")
        context = ssl._create_unverified_context()
        head = {
            "Authorization": f"Bearer {self.cluster.environment['ARVADOS_API_TOKEN']}",
            "Content-Type": "application/json",
        }
        uuid, number = "", 0
        while not self._stop.is_set():
            number += 1
            began = time.monotonic()
            connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
            try:
                body = json.dumps({"group": {"name": f"mine {number}", "group_class": "project"}})
                method, path = ("PUT", f"groups/{uuid}") if uuid else ("POST", "groups")
                connection.request(method, f"/arvados/v1/{path}", body, head)
                answer = connection.getresponse()
                text = answer.read()
                self.answers.append(answer.status)
                if answer.status == http.client.OK:
                    uuid = str(json.loads(text)["uuid"])
            except OSError:
                self.answers.append(0)
            finally:
                connection.close()
            self.slowest = max(self.slowest, time.monotonic() - began)
            self._stop.wait(0.05)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, it goes on."""
        thread = threading.Thread(target=self.work, name="writer")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
