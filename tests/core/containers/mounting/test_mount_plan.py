from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.containers.mounting.mount_plan import Area, BindMount, Keep, MountPlan, plan
from lading.core.containers.mounting.mount_steps import (
    CollectionPath,
    CopyCollection,
    GitTree,
    HostPath,
    KeepTree,
    LivePath,
    MakeDirectory,
    SecretVariable,
    WriteFile,
)
from lading.core.errors import ExecutionError, Failure

PDH = "d41d8cd98f00b204e9800998ecf8427e+0"
OTHER = "acbd18db4cc2f85cedef654fccc4a4d8+3"
OUT: dict[str, Any] = {"/out": {"kind": "tmp"}}


def make(
    mounts: dict[str, Any], secrets: dict[str, Any] | None = None, output: str = "/out"
) -> MountPlan:
    return plan({**OUT, **mounts}, secret_mounts=secrets or {}, output_path=output, scratch="/s")


def bind_at(made: MountPlan, target: str) -> BindMount:
    return next(bind for bind in made.binds if bind.target == target)


def area_at(made: MountPlan, target: str) -> Area:
    return next(area for area in made.areas if area.target == target)


def test_the_output_is_a_fresh_directory() -> None:
    made = make({})
    assert made.steps == (MakeDirectory("/s/1"),)
    assert made.binds == (BindMount(HostPath("/s/1"), "/out", False),)
    assert made.output_directory == "/s/1"
    assert made.collections == ()


def test_parents_come_first() -> None:
    made = make({"/a/b": {"kind": "tmp"}, "/a-c": {"kind": "tmp"}, "/a": {"kind": "tmp"}})
    assert [bind.target for bind in made.binds] == ["/a", "/a/b", "/a-c", "/out"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"portable_data_hash": PDH}, ""),
        ({"portable_data_hash": PDH, "uuid": "zzzzz-4zz18-000000000000000", "path": "/"}, ""),
        ({"portable_data_hash": PDH, "path": "/a/b"}, "a/b"),
        ({"portable_data_hash": PDH, "path": "./a"}, "a"),
        ({"portable_data_hash": f"{PDH}/a", "path": "b"}, "a/b"),
    ],
)
def test_a_collection_is_bound_read_only_and_referred_to(spec: dict[str, Any], path: str) -> None:
    made = make({"/in": {"kind": "collection", **spec}})
    assert bind_at(made, "/in") == BindMount(CollectionPath(PDH, path), "/in", True)
    assert area_at(made, "/in") == Area("/in", Keep.REFERENCE, CollectionPath(PDH, path))
    assert made.collections == (PDH,)


@pytest.mark.parametrize(
    ("spec", "content"),
    [
        ({"kind": "text", "content": "é\n"}, "é\n".encode()),
        ({"kind": "json", "content": {"b": 1, "a": [None]}}, b'{"a":[null],"b":1}'),
    ],
)
def test_texts_are_read_only_files(spec: dict[str, Any], content: bytes) -> None:
    made = make({"/etc/x": spec})
    assert WriteFile("/s/1", content) in made.steps
    assert bind_at(made, "/etc/x").readonly


def test_texts_below_the_output_are_ordinary_files() -> None:
    made = make(
        {
            "/out/x": {"kind": "text", "content": "a"},
            "/out/y": {"kind": "json", "exclude_from_output": True},
        }
    )
    assert made.steps[1:] == (WriteFile("/s/1/x", b"a", True), WriteFile("/s/1/y", b"null", True))
    assert [bind.target for bind in made.binds] == ["/out"]
    assert [area.target for area in made.areas] == ["/out", "/out/y"]


def test_secrets_are_never_kept() -> None:
    text = {"kind": "text", "content": "s"}
    made = make({}, {"/key": text, "/out/key": text})
    assert area_at(made, "/key") == Area("/key", Keep.NOTHING)
    assert area_at(made, "/out/key") == Area("/out/key", Keep.NOTHING)


def test_a_secret_below_the_output_is_bound_so_that_it_cannot_be_moved() -> None:
    made = make({}, {"/out/key": {"kind": "text", "content": "s"}})
    assert made.steps[1:] == (WriteFile("/s/2", b"s"),)
    assert bind_at(made, "/out/key") == BindMount(HostPath("/s/2"), "/out/key", True)
    with pytest.raises(ExecutionError, match="read-only mount /out/c"):
        make(
            {"/out/c": {"kind": "collection", "portable_data_hash": PDH}},
            {"/out/c/k": {"kind": "text", "content": ""}},
        )


def test_a_secret_as_input() -> None:
    made = make({}, {"stdin": {"kind": "text", "content": "s"}})
    assert made.steps[1:] == (WriteFile("/s/2", b"s"),)
    assert made.stdin == HostPath("/s/2")


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_git_tree_is_bound(kind: str) -> None:
    spec = {"kind": "git_tree", kind: "a" * 40}
    made = make({"/src": spec, "/again": spec, "/hidden": {**spec, "exclude_from_output": True}})
    source = GitTree("a" * 40, kind)
    assert bind_at(made, "/src") == BindMount(source, "/src", True)
    assert area_at(made, "/src") == Area("/src", Keep.FILES, source)
    assert area_at(made, "/hidden") == Area("/hidden", Keep.NOTHING)
    assert made.git_trees == (source,)
    assert made.collections == ()


def test_a_secret_at_a_mount_is_refused() -> None:
    with pytest.raises(ExecutionError, match="both a mount and a secret"):
        make({"/x": {"kind": "tmp"}}, {"/x": {"kind": "text", "content": ""}})


def test_a_writable_collection_below_the_output_is_copied() -> None:
    spec = {"kind": "collection", "portable_data_hash": PDH, "path": "d", "writable": True}
    made = make({"/out/d": spec, "/out/e": {**spec, "exclude_from_output": True}})
    assert made.steps[1:] == (
        CopyCollection(CollectionPath(PDH, "d"), "/s/1/d"),
        CopyCollection(CollectionPath(PDH, "d"), "/s/1/e"),
    )
    assert [area.target for area in made.areas] == ["/out", "/out/e"]
    assert made.collections == (PDH,)


def test_a_collection_without_content() -> None:
    made = make({"/e": {"kind": "collection"}, "/w": {"kind": "collection", "writable": True}})
    # It is fresh and empty: nobody else has it.
    assert [(bind.target, bind.readonly) for bind in made.binds] == [
        ("/e", False),
        ("/out", False),
        ("/w", False),
    ]


def test_a_collection_without_content_below_the_output() -> None:
    made = make(
        {"/out/w": {"kind": "collection", "writable": True}, "/out/e": {"kind": "collection"}}
    )
    assert set(made.steps[1:]) == {MakeDirectory("/s/1/e"), MakeDirectory("/s/1/w")}


@pytest.mark.parametrize("more", [{}, {"writable": True}])
def test_the_output_may_be_a_collection_without_content(more: dict[str, Any]) -> None:
    made = make({"/c": {"kind": "collection", **more}}, output="/c")
    assert (made.output_path, made.output_directory) == ("/c", "/s/1")


def test_the_output_may_be_a_copy_of_a_collection() -> None:
    made = make(
        {"/c": {"kind": "collection", "portable_data_hash": PDH, "writable": True}}, output="/c"
    )
    assert (made.steps[0], made.output_directory) == (
        CopyCollection(CollectionPath(PDH), "/s/1"),
        "/s/1",
    )
    assert bind_at(made, "/c") == BindMount(HostPath("/s/1"), "/c", False)


@pytest.mark.parametrize(
    ("output", "made_first"), [("/out/x", ()), ("/out/a/x", (MakeDirectory("/s/1/a"),))]
)
def test_the_output_path_may_lie_inside_a_mount(
    output: str, made_first: tuple[MakeDirectory, ...]
) -> None:
    made = make({"/out/t": {"kind": "tmp"}}, output=output)
    assert made.output_directory == "/s/1" + output.removeprefix("/out")
    assert made.steps == (MakeDirectory("/s/1"), MakeDirectory("/s/2"), *made_first)
    assert area_at(made, "/out") == Area("/out", Keep.FILES, HostPath("/s/1"))
    with pytest.raises(ExecutionError, match="below the output path"):
        make({f"{output}/t": {"kind": "tmp"}}, output=output)


def test_a_writable_collection_beside_the_output_is_a_copy() -> None:
    spec = {"kind": "collection", "portable_data_hash": PDH, "path": "d", "writable": True}
    made = make({"/c": spec})
    assert made.steps[0] == CopyCollection(CollectionPath(PDH, "d"), "/s/1")
    assert bind_at(made, "/c") == BindMount(HostPath("/s/1"), "/c", False)


@pytest.mark.parametrize(
    ("spec", "step"),
    [
        (
            {"kind": "collection", "portable_data_hash": OTHER, "path": "x", "writable": True},
            CopyCollection(CollectionPath(OTHER, "x"), "/s/1/d/a"),
        ),
        (
            {"kind": "text", "content": "x", "writable": True},
            WriteFile("/s/1/d/a", b"x", writable=True),
        ),
        (
            {"kind": "json", "content": 1, "writable": True},
            WriteFile("/s/1/d/a", b"1", writable=True),
        ),
    ],
)
def test_a_copy_in_a_writable_mount_is_an_ordinary_file(spec: dict[str, Any], step: Any) -> None:
    made = make({"/in": {"kind": "tmp"}, "/in/d/a": spec})
    assert step in made.steps
    assert [bind.target for bind in made.binds] == ["/in", "/out"]
    # A link of the output to it is saved, as one to a mount of its own.
    assert area_at(made, "/in/d/a") == Area("/in/d/a", Keep.FILES, HostPath("/s/1/d/a"))
    hidden = make({"/in": {"kind": "tmp"}, "/in/d/a": {**spec, "exclude_from_output": True}})
    assert area_at(hidden, "/in/d/a") == Area("/in/d/a", Keep.NOTHING)


def test_a_copy_elsewhere_has_a_mount_of_its_own() -> None:
    text = {"kind": "text", "content": "x", "writable": True}
    memory = {"kind": "tmp", "device_type": "ram"}
    tree = {"kind": "collection", "portable_data_hash": OTHER}
    made = make({"/a": text, "/memory": memory, "/memory/b": text, "/ro": tree, "/ro/c": text})
    assert [bind_at(made, one).readonly for one in ("/a", "/memory/b", "/ro/c")] == [False] * 3
    assert WriteFile("/s/1", b"x", writable=True) in made.steps


def test_a_mount_for_a_free_place_says_so() -> None:
    made = make({"/in": {"kind": "tmp", "unless_occupied": True}})
    assert bind_at(made, "/in").unless_occupied
    own = plan(
        {"/out": {"kind": "tmp", "unless_occupied": True}},
        secret_mounts={},
        output_path="/out",
        scratch="/s",
    )
    assert not bind_at(own, "/out").unless_occupied


def test_a_file_mount_shows_again_what_another_mount_has() -> None:
    text = {"kind": "text", "content": "s"}
    made = make(
        {
            "/a": {"kind": "file", "path": "/in/d/x"},
            "/in": {"kind": "collection", "portable_data_hash": PDH, "path": "p"},
            "/out/b": {"kind": "file", "path": "/in", "exclude_from_output": True},
            "/c": {"kind": "file", "path": "/src/y"},
            "/src": {"kind": "git_tree", "tree": "a" * 40},
            "/d": {"kind": "file", "path": "/t"},
            "/t": {"kind": "tmp"},
            "/e": {"kind": "file", "path": "/key"},
        },
        {"/key": text},
    )
    assert bind_at(made, "/a") == BindMount(CollectionPath(PDH, "p/d/x"), "/a", True)
    assert area_at(made, "/a") == Area("/a", Keep.REFERENCE, CollectionPath(PDH, "p/d/x"))
    assert area_at(made, "/out/b") == Area("/out/b", Keep.NOTHING)
    assert bind_at(made, "/c").source == GitTree("a" * 40, "tree", "y")
    assert made.git_trees == (GitTree("a" * 40, "tree"),)
    assert bind_at(made, "/d") == structs.replace(bind_at(made, "/t"), target="/d")
    assert (area_at(made, "/d").keep, area_at(made, "/e").keep) == (Keep.TEMPORARY, Keep.NOTHING)
    assert [bind.target for bind in made.binds] == sorted(bind.target for bind in made.binds)


def test_standard_input_may_be_a_file_of_another_mount() -> None:
    mounts = {
        "/in": {"kind": "collection", "portable_data_hash": PDH, "path": "p"},
        "/out/x": {"kind": "text", "content": "a"},
    }
    assert make({**mounts, "stdin": {"kind": "file", "path": "/in/x"}}).stdin == CollectionPath(
        PDH, "p/x"
    )
    assert make({**mounts, "stdin": {"kind": "file", "path": "/out/x"}}).stdin == HostPath("/s/1/x")


def test_streams_may_go_to_any_writable_mount() -> None:
    made = make({"/t": {"kind": "tmp"}, "stderr": {"kind": "file", "path": "/t/e"}})
    assert made.stderr == "/s/2/e"


def test_memory_is_for_other_directories_than_the_output() -> None:
    ram = {"kind": "tmp", "device_type": "ram", "capacity": 5}
    made = make({"/t": ram, "/out": ram, "/u": {**ram, "capacity": None}})
    assert made.steps == (
        MakeDirectory("/s/1"),
        MakeDirectory("/s/2", True, 5),
        MakeDirectory("/s/3", True, 0),
    )


def test_excluded_mounts_are_not_kept() -> None:
    excluded = {"exclude_from_output": True}
    made = make(
        {
            "/t": {"kind": "tmp", **excluded},
            "/out/i": {"kind": "collection", "portable_data_hash": PDH, **excluded},
        }
    )
    assert {area.target for area in made.areas if area.keep is Keep.NOTHING} == {"/t", "/out/i"}


def test_streams() -> None:
    made = make(
        {
            "stdin": {"kind": "collection", "portable_data_hash": OTHER, "path": "in.txt"},
            "stdout": {"kind": "file", "path": "/out/log/o.txt"},
            "stderr": {"kind": "file", "path": "/out/e.txt"},
        }
    )
    assert (made.stdin, made.stdout, made.stderr) == (
        CollectionPath(OTHER, "in.txt"),
        "/s/1/log/o.txt",
        "/s/1/e.txt",
    )
    assert made.collections == (OTHER,)


@pytest.mark.parametrize(
    "spec", [{"kind": "json", "content": [1]}, {"kind": "text", "content": "[1]"}]
)
def test_standard_input_from_the_record(spec: dict[str, Any]) -> None:
    assert make({"stdin": spec}).stdin == HostPath("/s/2")
    assert WriteFile("/s/2", b"[1]") in make({}, {"stdin": spec}).steps


def test_the_tree_of_all_collections_is_bound_read_only() -> None:
    made = make(
        {"/keep": {"kind": "keep"}, "/hidden": {"kind": "keep", "exclude_from_output": True}}
    )
    assert bind_at(made, "/keep") == BindMount(KeepTree(), "/keep", True)
    assert area_at(made, "/keep") == Area("/keep", Keep.FILES, KeepTree())
    assert area_at(made, "/hidden").keep is Keep.NOTHING
    assert made.keeps
    assert not make({}).keeps


@pytest.mark.parametrize(
    ("mounts", "fault"),
    [
        ({"/x": []}, "object"),
        ({"/x": {}}, "None"),
        ({"/x": {"kind": "file"}}, "path '' is not an absolute path"),
        ({"/x": {"kind": "file", "path": "/y"}}, "path '/y' is in no mount"),
        (
            {"/x": {"kind": "file", "path": "/out"}, "/x/y": {"kind": "tmp"}},
            r"\[/x/y\]: lies inside the file mount /x",
        ),
        (
            {"/out/x": {"kind": "file", "path": "/t"}, "/t": {"kind": "tmp"}},
            "in the writable mount /t",
        ),
        ({"/x": {"kind": "keep2"}}, "kind 'keep2' cannot be mounted here"),
        ({"x": {"kind": "tmp"}}, "absolute"),
        ({"/a/../b": {"kind": "tmp"}}, "absolute"),
        ({"/a//b": {"kind": "tmp"}}, "absolute"),
        ({"/": {"kind": "tmp"}}, "absolute"),
        ({"/out/t": {"kind": "tmp"}}, "below the output"),
        ({"/c": {"kind": "collection", "uuid": "u"}}, "portable_data_hash"),
        ({"/c": {"kind": "collection", "portable_data_hash": PDH, "path": "../x"}}, "leads out"),
        (
            {"/c": {"kind": "collection", "portable_data_hash": f"{PDH}/..", "path": ""}},
            "leads out",
        ),
        ({"/t": {"kind": "text", "content": 1}}, "string"),
        (
            {"stdin": {"kind": "collection", "portable_data_hash": PDH}},
            "must be a file of another mount",
        ),
        ({"stdin": {"kind": "collection"}}, "must be a file of another mount"),
        ({"stdin": {"kind": "tmp"}}, "must be a file of another mount"),
        ({"stdout": {"kind": "tmp"}}, "kind file"),
        ({"stdout": {"kind": "file", "path": "/tmp/x"}}, "path '/tmp/x' is in no mount"),
        ({"stdout": {"kind": "file", "path": "/out/../x"}}, "not an absolute path without"),
        ({"stdout": {"kind": "file", "path": "/out"}}, "path '/out' is a mount"),
        ({"stdout": {"kind": "file"}}, "not an absolute path"),
        (
            {
                "stdout": {"kind": "file", "path": "/in/x"},
                "/in": {"kind": "collection", "portable_data_hash": PDH},
            },
            "path '/in/x' lies inside the read-only mount /in",
        ),
        ({"/out": {"kind": "text", "content": ""}}, "writable mount"),
        ({"/out": {"kind": "collection", "portable_data_hash": PDH}}, "writable mount"),
        ({"/out/k": {"kind": "keep"}}, "cannot be below the output path"),
        ({"/out/k": {"kind": "live"}}, "cannot be below the output path"),
        (
            {
                "stdout": {"kind": "file", "path": "/in/x"},
                "/in": {"kind": "live", "root": "/work", "writable": True},
            },
            "path '/in/x' lies inside",
        ),
        ({"/out/src": {"kind": "git_tree", "tree": "a" * 40}}, "cannot be below the output path"),
        ({"/src": {"kind": "git_tree", "commit": "main"}}, "names no tree and no blob"),
        (
            {
                "/out/c": {"kind": "collection", "portable_data_hash": PDH},
                "/out/c/t": {"kind": "text", "content": ""},
            },
            "read-only mount /out/c",
        ),
    ],
)
def test_what_cannot_be_mounted_is_refused(mounts: dict[str, Any], fault: str) -> None:
    with pytest.raises(ExecutionError, match=fault) as caught:
        make(mounts)
    assert caught.value.failure is Failure.USER


def test_live_mounts() -> None:
    found = make(
        {
            "/in": {"kind": "live", "root": "/work", "path": "a", "writable": True},
            "/hidden": {"kind": "live", "root": "/work", "exclude_from_output": True},
            "/alias": {"kind": "file", "path": "/in/b"},
        }
    )
    binds = {one.target: one for one in found.binds}
    assert binds["/in"] == BindMount(LivePath("/work", "a"), "/in", readonly=False)
    assert binds["/hidden"] == BindMount(LivePath("/work"), "/hidden", readonly=True)
    assert binds["/alias"].source == LivePath("/work", "a/b")
    kept = {one.target: one.keep for one in found.areas}
    assert (kept["/in"], kept["/hidden"]) == (Keep.TEMPORARY, Keep.NOTHING)


@pytest.mark.parametrize("output", ["/nowhere", "stdin"])
def test_the_output_path_must_be_a_mount(output: str) -> None:
    with pytest.raises(ExecutionError, match="writable mount"):
        make({"stdin": {"kind": "json", "content": 1}}, output=output)


def test_contents_are_not_shown() -> None:
    assert "hush" not in repr(make({}, {"/key": {"kind": "text", "content": "hush"}}))


@given(st.sets(st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/out/t"]), min_size=1))
def test_every_target_is_bound_once_after_its_parents(targets: set[str]) -> None:
    made = make({target: {"kind": "collection", "portable_data_hash": PDH} for target in targets})
    found = [bind.target for bind in made.binds]
    assert set(found) == targets | {"/out"}
    assert all(
        not later.startswith(one + "/") or found.index(one) < found.index(later)
        for one in found
        for later in found
    )


def test_a_plan_that_copies_files_says_so() -> None:
    assert not make({"/in": {"kind": "collection", "portable_data_hash": PDH}}).copies
    assert make({"/in": {"kind": "text", "content": "x"}}).copies


def test_secrets_with_a_variable_are_named_and_never_shown() -> None:
    secrets: dict[str, Any] = {
        "/run/b": {"kind": "text", "content": "hidden", "environment_variable": "PASSWORD"},
        "/run/a": {"kind": "text", "content": "y"},
    }
    made = plan({"/out": {"kind": "tmp"}}, secret_mounts=secrets, output_path="/out", scratch="/s")
    assert made.variables == (SecretVariable("PASSWORD", "hidden"),)
    assert "hidden" not in repr(made.variables)
