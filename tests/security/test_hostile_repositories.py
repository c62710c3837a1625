"""Git repositories of strangers, which the server mirrors for mounts; in process."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import subprocess
import tarfile
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lading.api.mounts.git_cache import GitCache
from lading.core.containers.mounting.git_trees import GitReference
from lading.core.errors import ExecutionError, Invalid, LadingError, Unavailable
from lading.supervisor.inputs.git_archives import unpack

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{key}": "x" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
}
MAIN = GitReference(
    target="/src", source="git_url", name="u", selector="commit", revision="main", path=""
)


class _Remote:
    """A bare repository whose objects and references are written as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "--bare", "-b", "main", ".")

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *words: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=ENVIRONMENT, input=data, capture_output=True,
            check=True,
        )  # fmt: skip
        return done.stdout.decode().strip()

    def write(self, kind: str, data: bytes) -> str:
        return self.git("hash-object", "-t", kind, "--literally", "-w", "--stdin", data=data)

    def commit(self, tree: bytes) -> str:
        people = "author x <x> 0 +0000\ncommitter x <x> 0 +0000"
        text = f"tree {self.write('tree', tree)}\n{people}\n\n"
        commit = self.write("commit", text.encode())
        self.git("update-ref", "refs/heads/main", commit)
        return commit


@pytest.fixture
def remote(tmp_path: Path) -> _Remote:
    return _Remote(tmp_path / "remote")


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncGenerator[GitCache]:
    made = GitCache(tmp_path / "mirrors", timeout=20.0, size=1 << 20)
    yield made
    await made.close()


def _entry(name: bytes, mode: bytes, target: str) -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex(target)


NAMES = (
    b"", b".", b"..", b".git", b".GIT", b".Git", b".gIt", b"git~1", b"GIT~1", b".git ", b".git.",
    b".git\\config", b".git/config", b"../x", b"/etc/passwd",
    b"a/b", b"a\\b", b"..\\x", b"\xff\xfe",
    b".g\xe2\x80\x8cit",
    b"\xef\xbb\xbf.git", b".git::$INDEX_ALLOCATION", b"\x1b[2J", b"a\nb",
    b"-x",
    b"--upload-pack=x", b"x" * 255, b"x" * 256, b"x" * 5000, b"CON", b"a:b",
    b".gitmodules", b" ",
    b".gitattributes", b".gitignore", b".mailmap", b"GITMOD~1", b"*", b"$(id)",
    b"\x7f", b"\xc3\xa9",
)  # fmt: skip
MODES = (
    b"120000", b"160000", b"40000", b"040000", b"100666", b"104755", b"20666", b"60666", b"10000",
    b"140000", b"0", b"100644x", b"", b"777777777777", b"-1", b"100644\n", b"170000",
)  # fmt: skip
LINKS = ("/etc/passwd", "..", "../../x", "/proc/self/root", ".git", "x", "", "a\n", "x" * 5000)


async def _mounted(cache: GitCache, remote: _Remote, place: Path) -> None:
    """Fetch the tree, and unpack it as a supervisor does. Raises LadingError."""
    found = await cache.find(remote.url, MAIN, patience=20.0)
    assert found is not None
    pieces = await cache.archive("tree", found[0].hash)
    assert pieces is not None
    data = b"".join([piece async for piece in pieces])
    await asyncio.to_thread(unpack, io.BytesIO(data), place)


def _check(place: Path, outside: Path) -> None:
    assert sorted(path.name for path in outside.iterdir()) == ["mirrors", "place", "remote"]
    for path in place.rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
        assert not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH) or (
            stat.S_ISLNK(mode)
        )
        assert path.name not in (".git", "..")


async def _attack(cache: GitCache, remote: _Remote, top: Path) -> None:
    (top / "place").mkdir()
    # Refused, or unpacked below the directory.
    with suppress(Unavailable, Invalid, ExecutionError):
        await _mounted(cache, remote, top / "place")
    _check(top / "place", top)


@pytest.mark.attack("has an entry whose name leads out of the tree, or is one of git's own")
@pytest.mark.parametrize(
    ("name", "mode"), [(name, (b"100644", b"120000")[n % 2]) for n, name in enumerate(NAMES)]
)
async def test_name_of_an_entry(
    name: bytes, mode: bytes, remote: _Remote, cache: GitCache, tmp_path: Path
) -> None:
    remote.commit(_entry(name, mode, remote.write("blob", b"../../outside")))
    await _attack(cache, remote, tmp_path)


@pytest.mark.attack("has an entry that is a device, a submodule, writable by all, or of no kind")
@pytest.mark.parametrize("mode", MODES)
async def test_mode_of_an_entry(
    mode: bytes, remote: _Remote, cache: GitCache, tmp_path: Path
) -> None:
    remote.commit(_entry(b"x", mode, remote.write("blob", b"data")))
    await _attack(cache, remote, tmp_path)


@pytest.mark.attack("has a link, and then an entry below it, so that a file is written outside")
@pytest.mark.parametrize("target", LINKS)
async def test_entry_below_a_link(
    target: str, remote: _Remote, cache: GitCache, tmp_path: Path
) -> None:
    link = _entry(b"x", b"120000", remote.write("blob", target.encode()))
    below = _entry(b"outside", b"100644", remote.write("blob", b"data"))
    remote.commit(link + _entry(b"x", b"40000", remote.write("tree", below)))
    await _attack(cache, remote, tmp_path)


URLS = (
    "-u./x", "--upload-pack=touch x", "ext::sh -c id", "../x", "file:///etc", "a\nb", "",
)  # fmt: skip


@pytest.mark.attack("has a submodule whose address is an option or a program")
@pytest.mark.parametrize("url", URLS)
async def test_submodule(url: str, remote: _Remote, cache: GitCache, tmp_path: Path) -> None:
    text = f'[submodule "../../x"]\n\tpath = x\n\turl = "{url}"\n\tupdate = !touch outside\n'
    modules = _entry(b".gitmodules", b"100644", remote.write("blob", text.encode()))
    remote.commit(modules + _entry(b"x", b"160000", "1" * 40))
    await _attack(cache, remote, tmp_path)


SETTINGS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass",
    "core.gitProxy", "core.alternateRefsCommand", "uploadpack.packObjectsHook", "diff.external",
    "filter.x.smudge", "filter.x.process", "gpg.program", "credential.helper", "tar.tar.command",
    "tar.x.command", "remote.origin.uploadpack", "alias.upload-pack", "sequence.editor",
    "trailer.x.command",
)  # fmt: skip


@pytest.mark.attack("has a configuration or a hook that starts a program of the repository")
@pytest.mark.parametrize("name", SETTINGS)
async def test_configuration(name: str, remote: _Remote, cache: GitCache, tmp_path: Path) -> None:
    command = f"touch {tmp_path}/executed"
    attributes = remote.write("blob", b"* filter=x diff=x export-subst\n")
    remote.commit(_entry(b".gitattributes", b"100644", attributes))
    for name in SETTINGS:
        remote.git("config", name, command)
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-merge"):
        path = remote.path / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)
    await _attack(cache, remote, tmp_path)


REFS = (
    "refs/heads/--upload-pack=x", "refs/heads/-x", "refs/heads/../../hooks/x", "refs/heads/a b",
    "refs/heads/a..b", "refs/heads/.x", "refs/heads/x.lock", "refs/heads/a\\b", "refs/heads/a~1",
    "refs/heads/@{0}", "refs/heads/\x1b[2J", "refs/heads/" + "a/" * 90 + "x", "refs/tags/main",
    "refs/heads/main/x", "refs/heads/HEAD", "refs/tags/../../config", "HEAD/x", "refs/x/y",
    "../../x", "/etc/x", "refs/heads//x", "refs/heads/x/", "refs/heads/" + "x" * 250, "refs",
)  # fmt: skip


@pytest.mark.attack("has a branch whose name is an option, or leads out of the references")
@pytest.mark.parametrize("name", REFS)
async def test_name_of_a_branch(
    name: str, remote: _Remote, cache: GitCache, tmp_path: Path
) -> None:
    commit = remote.commit(_entry(b"x", b"100644", remote.write("blob", b"data")))
    (remote.path / "packed-refs").write_text(f"{commit} {name}\n")
    await _attack(cache, remote, tmp_path)
    (mirror,) = (tmp_path / "mirrors").iterdir()
    assert not (mirror / "hooks" / "x").exists()
    assert commit not in (mirror / "config").read_text()


@pytest.mark.attack("has a pack larger than all mirrors may be, and leaves it there when it breaks")
async def test_large_pack(remote: _Remote, cache: GitCache, tmp_path: Path) -> None:
    for number in range(3):
        remote.write("blob", b"")
        blob = remote.write("blob", os.urandom(2 << 20))
        remote.commit(_entry(b"%d" % number, b"100644", blob))
        with pytest.raises(Unavailable):
            await cache.find(remote.url, MAIN, patience=20.0)
    files = [path for path in (tmp_path / "mirrors").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1 << 18


@pytest.mark.attack("has a tree of billions of files in some kilobytes, so as to fill a machine")
async def test_tree_that_expands(remote: _Remote, cache: GitCache) -> None:
    target, mode = remote.write("blob", b"x" * 1000), b"100644"
    for _ in range(10):
        names = b"abcdefghij"
        tree = b"".join(_entry(names[n : n + 1], mode, target) for n in range(10))
        target, mode = remote.write("tree", tree), b"40000"
    remote.commit(_entry(b"x", b"40000", target))
    found = await cache.find(remote.url, MAIN, patience=20.0)
    assert found is not None
    cache.timeout = 0.2
    pieces = await cache.archive("tree", found[0].hash)
    assert pieces is not None
    with pytest.raises(Unavailable, match="took longer"):
        async for _ in pieces:
            pass


class _Web(BaseHTTPRequestHandler):
    """Answers every request with the same bytes."""

    answer = b""
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.headers['Host']} {self.path}")
        with suppress(OSError):
            self.wfile.write(self.answer)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _web(answer: bytes) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (_Web,), {"answer": answer, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _http(body: bytes, status: str = "200 OK", kind: str = "upload-pack-advertisement") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/x-git-{kind}\r\n\r\n"
    return head.encode() + body


SERVICE = b"001e# service=git-upload-pack\n0000"
HASH = b"1" * 40
ANSWERS = (
    b"", b"\0", b"HTTP/1.1 200 OK\r\n\r\n", b"SSH-2.0-x\r\n", _http(b""), _http(b"<html>"),
    *(_http(b"", f"{code} x\r\nLocation: {to}") for code in (301, 302, 307, 308)
      for to in ("http://127.0.0.1:1/x", "file:///etc/passwd", "ext::sh", "//127.0.0.1:1/", "")),
    *(_http(SERVICE + one) for one in (
        b"0000", b"0001", b"0002", b"0003", b"0004", b"ffff", b"zzzz", b"-001", b"0005x", b"",
        b"0032" + HASH + b" HEAD\n", b"003f" + HASH + b" refs/heads/../../x\0agent=x\n0000",
        b"000eversion 2\n0000", b"000eversion 9\n0000", b"0010ERR \x1b[2J\x07x\n",
        b"0041" + HASH + b" refs/heads/main\0object-format=sha256\n0000")),
    *(_http(b"", f"{code} x") for code in (204, 400, 401, 403, 404, 500, 503)),
    _http(b"x" * (1 << 20), kind="x"), _http(HASH + b"\trefs/heads/main\n", kind="x"),
    _http(HASH + b"\trefs/heads/../../x\n", kind="x"), b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 9999,
)  # fmt: skip


@pytest.mark.attack("answers a fetch with redirects, broken lines, or messages for a terminal")
@pytest.mark.parametrize("number", range(len(ANSWERS)))
async def test_answer_of_a_server(number: int, cache: GitCache) -> None:
    with _web(ANSWERS[number]) as (port, _), pytest.raises(LadingError) as caught:
        await cache.find(f"http://127.0.0.1:{port}/x", MAIN, patience=20.0)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= 400


@pytest.mark.attack("has a name whose second look-up gives an address that nobody checked")
@pytest.mark.parametrize("scheme", ["http", "git"])
async def test_second_look_up(scheme: str, cache: GitCache) -> None:
    cache.timeout = 3.0
    # This name has no address, and localhost another one than the one that was checked.
    with _web(_http(b"")) as (port, asked):
        url = f"{scheme}://twice.invalid:{port}/x"
        with pytest.raises(Unavailable):
            await cache.find(url, MAIN, patience=20.0, addresses=["127.0.0.1"])
        count = len(asked)
        with pytest.raises(Unavailable):
            await cache.find(
                f"{scheme}://localhost:{port}/x", MAIN, patience=20.0, addresses=["127.0.0.2"]
            )
        assert len(asked) == count
    if scheme == "http":
        assert asked[0].startswith(f"twice.invalid:{port} /x/info/refs")


MEMBERS = (
    ("../x", b"0"), ("/x", b"0"), ("a/../../x", b"0"), ("..", b"5"), ("x", b"1"), ("x", b"3"),
    ("x", b"4"), ("x", b"6"), ("x", b"7"), ("x", b"S"), ("x\n", b"1"), ("../x", b"2"),
    ("../x", b"5"),
)  # fmt: skip


@pytest.mark.attack("sends an archive that git cannot have made")
@pytest.mark.parametrize(("name", "kind"), MEMBERS)
def test_archive(name: str, kind: bytes, tmp_path: Path) -> None:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "../outside"
        tar.addfile(member)
    (tmp_path / "place").mkdir()
    with suppress(ExecutionError, Unavailable):
        unpack(io.BytesIO(stored.getvalue()), tmp_path / "place")
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert all(path.lstat().st_mode & 0o170000 == 0o100000 for path in tmp_path.glob("place/*"))
