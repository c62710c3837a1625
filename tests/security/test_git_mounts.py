"""Mounts of git trees whose texts try to be options, programs or other hosts, in process."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from lading.api.mounts.git_cache import GitCache
from lading.core.containers.mounting.git_trees import GitReference, check, is_allowed
from lading.core.errors import Invalid, Unavailable
from lading.core.values import JsonObject

URL = "https://git.example/a.git"
ADDRESSES = (
    "--upload-pack=touch /tmp/x", "-u", "-oProxyCommand=x", "ext::sh -c id", "fd::17", "file::/x",
    "transport::x", "https://git.example/../x", "https://[::1]/x", "https://[fe80::1%25lo]/x",
    "ssh://-oProxyCommand=id/x", "a b", "a\nb", "a\0b", "a;id", "a|id", "a$(id)", "a`id`", "a&b",
    "a'b", 'a"b', "a\\b", "https://h/x?y", "https://h/x#y", "https://h/%2e%2e/x", "é", "", "/etc",
    "./x", "../x", "~/x", " https://h/x", "https://h/x\r\nX: y", "x" * 501, "git@h:..", "h::x",
)  # fmt: skip
REVISIONS = (
    "--output=/tmp/x", "-x", "", " ", "main:etc/passwd", ":/word", ":0:x", "a..b", "a...b", "^main",
    "main main2", "main\nx", "a\0b", "a;b", "$(id)", "`id`", "a|b", "a&b", "a>b", "a*", "a?", "[a]",
    "a\\b", "é", "x" * 501, "main --all", "a'b", 'a"b', "(a)", "!a", "%s", "#a", "a,b", "a=b",
)  # fmt: skip
PATHS = (
    "..", "../x", "a/../b", "a/..", ".", "a/./b", ".git", ".git/config", "a/.git/hooks", "a\nb",
    "a\0b", "a\x7f", "a\x1b[2J", "x" * 501, "a\rb", "\u202e", "./a", "a/.", "a\tb", "../../etc",
)  # fmt: skip
NAMES = (
    "-x",
    "",
    "../x",
    "a b",
    "a:b",
    "a@b",
    "a\nb",
    "a;b",
    "~a",
    "$a",
    "x" * 501,
    "/a",
    ".a",
    "é",
)


@pytest.mark.attack("gives git an option, a helper program or a path in the text of a mount")
@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(("git_url", one) for one in ADDRESSES),
        *(("commit", one) for one in REVISIONS),
        *(("path", one) for one in PATHS),
        *(("repository_name", one) for one in NAMES),
    ],
)
def test_text_of_a_mount(key: str, text: str) -> None:
    mount: JsonObject = {"kind": "git_tree", "git_url": URL, "commit": "main", key: text}
    if key == "repository_name":
        del mount["git_url"]
    with pytest.raises(Invalid) as caught:
        check("Mounts [/src]", mount)
    assert len(caught.value.message) <= 300


ALLOWED = ("https://git.example:", "ssh://git@git.example:", "https://git.example/team/", "git@h:")


@pytest.mark.attack("goes on behind an allowed prefix of an address with another host")
@pytest.mark.parametrize(
    "url",
    [
        "https://git.example:8080@127.0.0.1/x", "https://git.example:x@evil.example/x",
        "https://git.example:@evil.example/x", "https://git.example:1@evil.example:443/x",
        "ssh://git@git.example:22@evil.example/x", "ssh://git@git.example:@evil.example/x",
        "https://git.example.evil.example/team/x", "https://git.example/teams/x",
        "http://git.example/team/x", "HTTPS://git.example/team/x", "https://git.example@evil/team/",
        "git@hh:x", "git@evil:x", "git@h/x:y",
    ],
)  # fmt: skip
def test_host_behind_a_prefix(url: str) -> None:
    assert not is_allowed(url, ALLOWED)


@pytest.mark.attack("is refused although its address is one that the site allows")
def test_allowed_addresses() -> None:
    for url in ("https://git.example:8443/x", "https://git.example/team/x", "git@h:team/x"):
        assert is_allowed(url, ALLOWED)
    assert is_allowed("https://any.example/x", ["https://"])


@pytest.mark.attack(
    "sends messages without an end while the server fetches, so as to fill its memory"
)
async def test_endless_messages(tmp_path: Path) -> None:
    program = tmp_path / "git"
    # What git does with the messages of a server: it passes them on.
    program.write_text("#!/bin/sh\ndd if=/dev/zero bs=1M count=200 >&2 2>/dev/null; exit 1\n")
    program.chmod(0o755)
    (tmp_path / "mirrors").mkdir()
    cache = GitCache(tmp_path / "mirrors", timeout=60, program=str(program))
    wanted = GitReference(
        target="/src", source="git_url", name=URL, selector="commit", revision="main", path=""
    )
    tracemalloc.start()
    try:
        with pytest.raises(Unavailable) as caught:
            await cache.find(URL, wanted, patience=60)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        await cache.close()
    assert (peak < 32 << 20, len(caught.value.message) < 500) == (True, True)
