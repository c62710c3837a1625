"""Git trees: what may be named, what git is asked, how it is understood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.containers.mounting import git_trees
from lading.core.containers.mounting.git_trees import GitReference, ResolvedGitTree
from lading.core.errors import Invalid
from lading.core.values import JsonObject

URL = "https://git.example.org/tools.git"
REPOSITORY = "zzzzz-s0uqq-xxxxxxxxxxxxxxx"
GOOD: list[JsonObject] = [
    {"uuid": REPOSITORY, "commit": "master"},
    {"uuid": REPOSITORY, "revisions": "bugfix^..master", "path": "/crunch_scripts/grep"},
    {"repository_name": "lab/tools", "commit": "v1.0~2"},
    {"git_url": URL, "revisions": "^v1 main dev", "path": "/"},
    {"git_url": "git@example.org:tools", "commit": "a" * 40},
]
BAD: list[tuple[JsonObject, str]] = [
    ({"commit": "main"}, "needs exactly one of git_url, repository_name, uuid"),
    ({"git_url": URL, "uuid": REPOSITORY, "commit": "main"}, "needs exactly one of git_url"),
    ({"git_url": URL}, "needs exactly one of commit, revisions"),
    ({"git_url": URL, "commit": "a", "revisions": "b"}, "needs exactly one of commit"),
    (
        {"uuid": "zzzzz-4zz18-xxxxxxxxxxxxxxx", "commit": "main"},
        "[uuid]: not the uuid of a repository",
    ),
    ({"repository_name": "-x", "commit": "main"}, "not the name of a repository"),
    ({"git_url": "--upload-pack=x", "commit": "main"}, "not the address of a repository"),
    ({"git_url": "ext::sh -c x", "commit": "main"}, "not the address of a repository"),
    ({"git_url": "https://a/../b", "commit": "main"}, "not the address of a repository"),
    ({"git_url": URL, "commit": "--all"}, "[commit]: not a commit"),
    ({"git_url": URL, "commit": ":/x"}, "[commit]: not a commit"),
    ({"git_url": URL, "commit": "main dev"}, "[commit]: not a commit"),
    ({"git_url": URL, "commit": "a..b"}, "[commit]: 'a..b' names a set of commits"),
    ({"git_url": URL, "revisions": "a --output=x"}, "[revisions]: not a range of commits"),
    ({"git_url": URL, "revisions": " "}, "[revisions]: not a range of commits"),
    (
        {"git_url": URL, "commit": "main", "path": "a/../b"},
        "[path]: not a path inside a repository",
    ),
    ({"git_url": URL, "commit": "main", "path": "a\nb"}, "[path]: not a path inside a repository"),
]


@pytest.mark.parametrize("spec", GOOD)
def test_good_trees(spec: JsonObject) -> None:
    git_trees.check("x", spec)


@pytest.mark.parametrize(("spec", "fault"), BAD)
def test_bad_trees(spec: JsonObject, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        git_trees.check("x", spec)
    assert fault in refusal.value.message


@given(st.text(max_size=12), st.text(max_size=12))
def test_nothing_that_git_takes_for_an_option_passes(url: str, revision: str) -> None:
    try:
        git_trees.check("x", {"git_url": url, "revisions": revision})
    except Invalid:
        return
    assert not any(word.startswith("-") or ":" in word for word in revision.split())
    assert not url.startswith("-")


def test_the_allow_list() -> None:
    allowed = ["https://git.example.org/", URL + "x", "git@example.org:"]
    assert git_trees.is_allowed(URL, allowed)
    assert git_trees.is_allowed("git@example.org:tools", allowed)
    assert not git_trees.is_allowed("https://git.example.org.evil/tools", allowed)
    assert not git_trees.is_allowed(URL + "xy", [URL + "x"])


def test_references() -> None:
    mounts: JsonObject = {
        "/out": {"kind": "tmp"},
        "/src": {
            "kind": "git_tree",
            "repository_name": "tools",
            "commit": "main",
            "git_url": "",
            "path": "//a/b/",
        },
    }
    named = {
        "source": "repository_name",
        "name": "tools",
        "selector": "commit",
        "revision": "main",
        "path": "a/b",
    }
    assert git_trees.references(mounts) == (GitReference(target="/src", **named),)


def test_looking_up_a_path_in_commits() -> None:
    one, two, three = "1" * 40, "2" * 40, "3" * 40
    assert git_trees.lookup_lines([one, two], "a/b") == f"{one}:a/b\n{two}:a/b\n"
    assert git_trees.lookup_lines([one], "") == f"{one}^{{tree}}\n"
    answer = f"{'a' * 40} tree 12\n{two}:a/b missing\n{'a' * 40} tree 12\n"
    assert git_trees.read_lookup([one, two, three], answer) == (
        ResolvedGitTree(one, "tree", "a" * 40),
    )
    blob = git_trees.read_lookup([one], f"{'b' * 40} blob 3\n")
    assert blob[0].mount == {"kind": "git_tree", "blob": "b" * 40}


def test_what_a_hash_is_in_resolved_mounts() -> None:
    mounts: JsonObject = {
        "/a": {"kind": "git_tree", "tree": "a" * 40},
        "/b": {"kind": "git_tree", "blob": "b" * 40},
        "/c": {"kind": "text", "tree": "c" * 40},
    }
    assert [git_trees.kind_of(mounts, one * 40) for one in "abcd"] == ["tree", "blob", None, None]
    assert git_trees.kind_of(mounts, "") is None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/x.git", "example.org"), ("http://user@10.0.0.1:80/x", "10.0.0.1"),
        ("git://h", "h"), ("ssh://git@h:22/x", "h"), ("git@h:x/y", "h"), ("h:x", "h"),
        ("file:///srv/x", None), ("FILE:///x", None), ("srv/x", None), ("srv/a:b", None),
    ],
)  # fmt: skip
def test_the_machine_that_an_address_names(url: str, host: str | None) -> None:
    assert git_trees.host_of(url) == host


@pytest.mark.parametrize(
    ("url", "addresses", "pinned"),
    [
        ("https://h/x", ["192.0.2.1"], ("https://h/x", "h:443:192.0.2.1", "")),
        ("http://u@h:8/x", ["::1", "192.0.2.1"], ("http://u@h:8/x", "h:8:[::1],192.0.2.1", "")),
        ("http://h/x", ["192.0.2.1"], ("http://h/x", "h:80:192.0.2.1", "")),
        ("git://h:9/x", ["192.0.2.1", "192.0.2.2"], ("git://192.0.2.1:9/x", "", "h:9")),
        ("git://h/x", ["2001:db8::1"], ("git://[2001:db8::1]/x", "", "h")),
        ("https://h/x", [], ("https://h/x", "", "")),
        ("ssh://git@h/x", ["192.0.2.1"], ("ssh://git@h/x", "", "")),
        ("git@h:x", ["192.0.2.1"], ("git@h:x", "", "")),
    ],
)
def test_a_host_is_pinned(url: str, addresses: list[str], pinned: tuple[str, str, str]) -> None:
    found = git_trees.pinned(url, addresses)
    settings = tuple(f"http.curloptResolve={one}" for one in pinned[1:2] if one)
    host = {"GIT_OVERRIDE_VIRTUAL_HOST": pinned[2]} if pinned[2] else {}
    assert (found.url, found.settings, found.environment) == (pinned[0], settings, host)
    assert git_trees.is_looked_up(url) == (url[:3] in ("htt", "git") and "://" in url)
