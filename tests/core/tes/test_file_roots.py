"""Directories that file URLs may lead to."""

from __future__ import annotations

import pytest

from lading.core.errors import Forbidden, Invalid
from lading.core.tes.file_roots import find_live_root, find_root, is_below_root, make_roots

ROOTS = make_roots(
    {
        "/data/": {"Path": "/mnt/data", "Write": True},
        "/data/ann": {"Users": ["ann"]},
        "/plain": {},
    }
)


def test_the_longest_beginning_counts() -> None:
    root, path = find_root(ROOTS, "/data/x/y", ["bob"], writes=True)
    assert (root.directory, path) == ("/mnt/data", "x/y")
    root, path = find_root(ROOTS, "/data/ann", ["ann", "uuid"])
    assert (root.directory, path) == ("/data/ann", "")
    assert find_root(ROOTS, "/data/annex", ["bob"])[1] == "annex"
    assert find_root(ROOTS, "/plain/a", [])[0].users == ()


@pytest.mark.parametrize(
    ("path", "names", "writes"),
    [("/data/ann/x", ["bob"], False), ("/other", ["ann"], False), ("/data/ann/x", ["ann"], True)],
)
def test_refusals(path: str, names: list[str], writes: bool) -> None:
    with pytest.raises(Forbidden):
        find_root(ROOTS, path, names, writes=writes)


def test_what_some_user_may_use() -> None:
    assert is_below_root(ROOTS, "/data/ann/x")
    assert not is_below_root(ROOTS, "/data/ann/x", writes=True)
    assert not is_below_root(ROOTS, "/etc")


def test_live_roots() -> None:
    roots = make_roots({"/live": {"Live": True}, "/live/copied": {}})
    found = find_live_root(roots, "/live/a")
    assert found is not None
    assert (found.prefix, found.is_live, found.is_writable) == ("/live", True, False)
    assert find_live_root(roots, "/live/copied/a") is None
    assert find_live_root(roots, "/other") is None


@pytest.mark.parametrize("prefix", ["data", "./data", "~/data", "/a/../b", "/a//b", "/./a", ""])
def test_a_root_that_no_url_leads_to_is_refused(prefix: str) -> None:
    with pytest.raises(Invalid, match="must be an absolute path"):
        make_roots({prefix: {"Path": "/data"}})


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"Path": "data"}, r"TES.FileRoots./x.Path: must be the absolute path"),
        ({"Path": 3}, r"Path: must be the absolute path"),
        ({"Users": "ann"}, "Users: must be a list of names"),
        ({"Users": [1]}, "Users: must be a list of names"),
        ({"Live": "no"}, "Live: must be true or false"),
        ({"write": True}, "unknown key write; known here: Path, Write, Live, Users"),
    ],
)
def test_faults_of_a_root_are_named(settings: dict[str, object], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        make_roots({"/x": settings})


def test_roots_may_end_with_a_slash_and_be_everything() -> None:
    assert [one.prefix for one in make_roots({"/": {}, "/a/": {}})] == ["/a", ""]
