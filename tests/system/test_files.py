"""Files of collections over HTTP with a real server: cadaver and curl, large bodies in little
memory, many writers.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reality import need_program
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
LARGE = 200 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("files") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> str:
    """The address of a collection."""
    return new_collection(cluster)


def new_collection(cluster: Cluster) -> str:
    answer = curl(
        cluster, "-X", "POST", "-d", "{}", f"https://{cluster.address}/arvados/v1/collections"
    )
    return f"https://{cluster.address}/c={json.loads(answer)['uuid']}/"


def curl(cluster: Cluster, *arguments: str) -> bytes:
    token = cluster.environment["ARVADOS_API_TOKEN"]
    command = [
        "curl",
        "-sS",
        "--fail-with-body",
        "--cacert",
        str(cluster.data / "tls.crt"),
        "--config",
        "-",
        *arguments,
    ]
    header = f'header = "Authorization: Bearer {token}"\n'
    done = subprocess.run(
        command, input=header.encode(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"curl {arguments}: {done.stderr.decode()} {done.stdout[:300]!r}"
    return done.stdout


def cadaver(cluster: Cluster, root: str, script: str, home: Path) -> str:
    """What cadaver says to a script of commands."""
    token = cluster.environment["ARVADOS_API_TOKEN"]
    (home / ".netrc").write_text(
        f"machine {cluster.address.split(':')[0]} login any password {token}\n"
    )
    (home / ".netrc").chmod(0o600)
    # It asks a person, at a terminal, whether the certificate that the server made is trusted.
    person, terminal = os.openpty()
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "dumb"}
    process = subprocess.Popen(
        ["cadaver", root],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=home,
    )
    os.close(terminal)
    said = bytearray()
    with suppress(OSError):
        os.write(person, f"y\n{script}\nquit\n".encode())
        while piece := os.read(person, 4096):
            said += piece
    os.close(person)
    process.wait(60)
    return said.decode()


@pytest.mark.quick
def test_cadaver(cluster: Cluster, tmp_path: Path) -> None:
    need_program("cadaver")
    root = new_collection(cluster)
    (tmp_path / "local.txt").write_text("written by hand\n")
    said = cadaver(
        cluster,
        root,
        "mkcol notes\nput local.txt notes/a.txt\ncopy notes/a.txt notes/b.txt\n"
        "move notes/b.txt notes/c.txt\nlock notes/c.txt\ndiscover notes/c.txt\n"
        "unlock notes/c.txt\nls notes\nget notes/c.txt back.txt\n"
        "delete notes/a.txt\npropnames notes/c.txt\nmkcol gone\nrmcol gone\nls notes",
        tmp_path,
    )
    assert (tmp_path / "back.txt").read_text() == "written by hand\n"
    assert "failed" not in said
    assert "Lock token" in said
    listing = json.loads(curl(cluster, f"{root}notes/?format=json"))
    assert [one["name"] for one in listing["items"]] == ["c.txt"]


@pytest.mark.quick
def test_curl_reads_ranges_listings_and_archives(
    cluster: Cluster, root: str, tmp_path: Path
) -> None:
    curl(cluster, "-T", __file__, f"{root}sub/code.py")
    source = Path(__file__).read_bytes()
    assert curl(cluster, f"{root}sub/code.py") == source
    assert curl(cluster, "-r", "10-19", f"{root}sub/code.py") == source[10:20]
    assert b'<a href="' in curl(cluster, f"{root}sub/")
    curl(cluster, "-o", str(tmp_path / "all.zip"), f"{root}?format=zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("sub/code.py") == source
    tar = curl(cluster, f"{root}?format=tar")
    listed = subprocess.run(
        ["tar", "-t"], input=tar, capture_output=True, check=True
    ).stdout.decode()
    assert "sub/code.py" in listed.split()


def test_large_files_pass_in_little_memory(cluster: Cluster, tmp_path: Path) -> None:
    root = new_collection(cluster)
    large = tmp_path / "large.bin"
    seed = random.Random(4).randbytes(1 << 20)
    with large.open("wb") as file:
        for number in range(LARGE >> 20):
            file.write(number.to_bytes(8, "big") + seed[8:])
    server = cluster.pids("server")[0]
    with Peak(server) as peak:
        curl(cluster, "-T", str(large), f"{root}large.bin")
        digest = hashlib.md5(curl(cluster, f"{root}large.bin"), usedforsecurity=False).hexdigest()
    assert digest == hashlib.md5(large.read_bytes(), usedforsecurity=False).hexdigest()
    assert peak.grown < 3 * (64 << 20) + (64 << 20)


def test_many_writers_do_not_lose_files(cluster: Cluster, tmp_path: Path) -> None:
    root = new_collection(cluster)
    (tmp_path / "x").write_text("x")
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: curl(cluster, "-T", str(tmp_path / "x"), f"{root}d/f{number}"),
                range(40),
            )
        )
    items = json.loads(curl(cluster, f"{root}d/?format=json"))["items"]
    assert {one["name"] for one in items} == {f"f{number}" for number in range(40)}


def test_what_was_acknowledged_outlives_kill(cluster: Cluster, tmp_path: Path) -> None:
    root = new_collection(cluster)
    (tmp_path / "x").write_bytes(b"kept" * 1000)
    curl(cluster, "-T", str(tmp_path / "x"), f"{root}f")
    os.kill(cluster.pids("server")[0], 9)
    read = ["--retry", "20", "--retry-connrefused", "--retry-all-errors", "--retry-delay", "1"]
    assert curl(cluster, *read, f"{root}f") == b"kept" * 1000


def test_no_token_is_written_down(cluster: Cluster, root: str) -> None:
    token = cluster.environment["ARVADOS_API_TOKEN"]
    curl(cluster, f"{root}?api_token={token}&format=json")
    curl(cluster, f"{root}t={token}/?format=json")
    secret = token.rpartition("/")[2]
    logs = [path.read_text(errors="replace") for path in (cluster.data / "log").glob("*")]
    assert not any(secret in text for text in logs)


class Peak:
    """How much the memory of a process grew at most, while the context was open."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self.grown = 0

    def __enter__(self) -> Peak:
        self._begin = self._resident()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.grown = max(self.grown, self._resident() - self._begin)

    def _resident(self) -> int:
        fields = Path(f"/proc/{self._pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
