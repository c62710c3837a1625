"""From the mounts of a request to those of a container."""

from __future__ import annotations

import pytest

from lading.core.containers.mounting import git_trees, mount_resolution, mounts
from lading.core.containers.mounting.mount_resolution import CollectionReference
from lading.core.errors import Invalid
from lading.core.ids import EMPTY_PDH
from lading.core.values import Json, JsonObject
from tests.records import INPUT

UUID = "zzzzz-4zz18-aaaaaaaaaaaaaaa"
OUT: JsonObject = {"/out": {"kind": "tmp", "capacity": 1}}
TREE = git_trees.ResolvedGitTree("c" * 40, "tree", "a" * 40)


def test_a_git_tree_becomes_its_hash() -> None:
    spec: JsonObject = {
        "/src": {
            "kind": "git_tree",
            "repository_name": "tools",
            "revisions": "v1..main",
            "path": "/a",
        }
    }
    assert [one.target for one in mounts.git_references({**OUT, **spec})] == ["/src"]
    older = git_trees.ResolvedGitTree("d" * 40, "tree", "b" * 40)
    assert mount_resolution.resolve(spec, {}, {"/src": (TREE, older)}) == {
        "/src": {"kind": "git_tree", "tree": "a" * 40}
    }
    for trees in ({}, {"/src": ()}):
        with pytest.raises(
            Invalid, match=r"\[/src\]: cannot mount git tree: revisions 'v1..main' not found"
        ):
            mount_resolution.resolve(spec, {}, trees)
    with pytest.raises(Invalid, match="git_url"):
        mounts.git_references({"/src": {"kind": "git_tree"}})


def test_what_has_to_be_looked_up() -> None:
    given: JsonObject = {
        "/both": {"kind": "collection", "portable_data_hash": INPUT + "+Khint/sub", "uuid": UUID},
        "/uuid": {"kind": "collection", "uuid": UUID},
        "/empty": {"kind": "collection", "portable_data_hash": EMPTY_PDH},
        "/fresh": {"kind": "collection", "writable": True},
        "/out": {"kind": "tmp"},
    }
    assert mount_resolution.references(given) == (
        CollectionReference("/both", INPUT, True),
        CollectionReference("/uuid", UUID, False),
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "collection", "uuid": UUID},
        {"kind": "collection", "portable_data_hash": INPUT},
        {"portable_data_hash": INPUT, "uuid": UUID, "kind": "collection"},
        {
            "kind": "collection",
            "portable_data_hash": INPUT + "+Khint",
            "writable": False,
            "capacity": 0,
        },
    ],
)
def test_every_spelling_of_an_input_is_one_mount(spec: Json) -> None:
    resolved = mount_resolution.resolve({"/in": spec}, {UUID: INPUT, INPUT: INPUT})
    assert resolved == {"/in": {"kind": "collection", "portable_data_hash": INPUT}}


def test_other_mounts_are_kept() -> None:
    given: JsonObject = {
        "/sub": {"kind": "collection", "portable_data_hash": INPUT + "/a", "path": "b"},
        "/none": {"kind": "collection", "portable_data_hash": EMPTY_PDH},
        "/text": {"kind": "text", "content": "", "path": ""},
        "/out": {"kind": "tmp", "capacity": 5},
        "/odd": None,
    }
    expected = {**given, "/text": {"kind": "text", "content": ""}}
    assert mount_resolution.resolve(given, {INPUT: INPUT}) == expected


def test_an_input_that_cannot_be_read() -> None:
    for spec in ({"uuid": UUID}, {"portable_data_hash": INPUT}):
        with pytest.raises(
            Invalid, match=r'Mounts \[/in\]: cannot mount collection ".*": not found'
        ):
            mount_resolution.resolve({"/in": {"kind": "collection", **spec}}, {UUID: None})


def test_a_mount_shows_a_path_of_a_collection() -> None:
    pdh, uuid, request = (
        f"{'a' * 32}+1",
        "zzzzz-4zz18-aaaaaaaaaaaaaaa",
        "zzzzz-xvhdp-aaaaaaaaaaaaaaa",
    )
    collection: JsonObject = {"kind": "collection", "portable_data_hash": pdh}
    shown = mount_resolution.shown(
        {
            "/whole": collection,
            "/dot": {**collection, "path": "./"},
            "/file": {**collection, "path": "/a//b"},
            "/inner": {"kind": "collection", "portable_data_hash": f"{pdh}/a", "path": "b"},
            "/named": {"kind": "collection", "uuid": uuid, "path": "x"},
            "/gone": {"kind": "collection", "uuid": "y", "path": "x"},
            "/made": {"kind": "output", "container_request": request, "path": "x"},
            "/written": {**collection, "path": "a", "writable": True},
            "/text": {"kind": "text", "content": "x"},
            "/bad": "no object",
        },
        {pdh: pdh, uuid: "c+1", request: "d+1", "y": None},
    )
    assert shown == {
        "/file": (pdh, "a/b"),
        "/inner": (pdh, "a/b"),
        "/named": ("c+1", "x"),
        "/made": ("d+1", "x"),
    }


def test_the_command_sees_content_and_target() -> None:
    spec: JsonObject = {
        "kind": "collection",
        "portable_data_hash": "a+1",
        "path": "x",
        "exclude_from_output": True,
    }
    assert mount_resolution.seen(
        {"/in": spec, "/t": {"kind": "tmp"}}, {"/in": {"content": "c"}}
    ) == {
        "/in": {"kind": "collection", "content": "c", "exclude_from_output": True},
        "/t": {"kind": "tmp"},
    }
    assert mount_resolution.seen({"/in": "x"}, {"/in": {"content": "c"}}) == {"/in": "x"}
