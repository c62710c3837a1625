"""The shape of mounts."""

from __future__ import annotations

import pytest

from lading.core.containers.mounting import mount_resolution, mounts
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject
from tests.records import INPUT

UUID = "zzzzz-4zz18-aaaaaaaaaaaaaaa"
OUT: JsonObject = {"/out": {"kind": "tmp", "capacity": 1}}


def check(
    target: str = "/in", spec: Json = None, secret: JsonObject | None = None, output: str = "/out"
) -> None:
    given: JsonObject = {} if spec is None else {target: spec}
    mounts.validate({**OUT, **given}, secret or {}, output_path=output)


GOOD: list[tuple[str, Json]] = [
    ("/in", {"kind": "collection", "portable_data_hash": INPUT, "uuid": UUID, "path": "/a/b"}),
    ("/in", {"kind": "collection", "portable_data_hash": INPUT + "+Khint/sub/dir"}),
    ("/in", {"kind": "collection", "writable": True}),
    (
        "/in",
        {
            "kind": "git_tree",
            "repository_name": "tools",
            "commit": "main",
            "uuid": "",
            "path": "/a",
        },
    ),
    ("/in", {"kind": "collection", "uuid": UUID, "capacity": 0, "content": "", "commit": None}),
    ("/tmp", {"kind": "tmp", "capacity": 10, "device_type": "ram"}),
    ("/dev/shm", {"kind": "tmp"}),
    ("/dev/shm/a", {"kind": "tmp"}),
    ("/process/sys", {"kind": "tmp"}),
    ("/a.json", {"kind": "json", "content": None}),
    ("/a.txt", {"kind": "text", "content": ""}),
    ("stdin", {"kind": "collection", "portable_data_hash": INPUT, "path": "a.txt"}),
    ("stdout", {"kind": "file", "path": "/out/a.txt"}),
    ("stdin", {"kind": "file", "path": "/out/a.txt"}),
    ("/in", {"kind": "file", "path": "/out"}),
    ("/in", {"kind": "live", "root": "/work", "path": "a/b", "writable": True}),
    ("/in", {"kind": "live", "root": "/work"}),
]
BAD: list[tuple[str, Json, str]] = [
    (
        "in",
        {"kind": "tmp"},
        "[in]: invalid target: must be stdin, stdout, stderr or an absolute path",
    ),
    ("/a/../b", {"kind": "tmp"}, "no '.', '..' or empty element"),
    ("/", {"kind": "tmp"}, "[/]: invalid target: / is the root of the image"),
    ("/in/" + "ä" * 128, {"kind": "tmp"}, "a name in it is longer than 255 bytes"),
    ("/a/", {"kind": "tmp"}, "invalid target"),
    ("/a//b", {"kind": "tmp"}, "invalid target"),
    ("/a\0", {"kind": "tmp"}, "invalid target"),
    ("/proc", {"kind": "tmp"}, "[/proc]: invalid target: /proc, /sys and /dev are"),
    ("/proc/self/cwd/x", {"kind": "tmp"}, "apart from /dev/shm"),
    ("/sys/kernel", {"kind": "tmp"}, "invalid target"),
    ("/dev/null", {"kind": "text", "content": "x"}, "invalid target"),
    ("/dev/shm2", {"kind": "tmp"}, "invalid target"),
    ("a\nb", {"kind": "tmp"}, "['a\\nb']: invalid target"),
    ("/in", {"kind": "live"}, "[/in][root]: must name a directory that TES.FileRoots offers"),
    ("/in", {"kind": "live", "root": "/a/../b"}, "[/in][root]: must name a directory"),
    ("/in", {"kind": "live", "root": "/a", "path": "../b"}, "[/in][path]: must be a relative path"),
    ("/in", {"kind": "live", "root": "/a", "path": "/b"}, "[/in][path]: must be a relative path"),
    ("/in", "tmp", "[/in]: must be an object with a kind"),
    ("/in", {}, "[/in][kind]: unsupported value 'None'"),
    ("/in", {"kind": ["tmp"]}, "[/in][kind]: unsupported value"),
    (
        "/in",
        {"kind": "git_tree"},
        "a git_tree mount needs exactly one of git_url, repository_name, uuid",
    ),
    (
        "/in",
        {"kind": "git_tree", "git_url": 1},
        "[/in][git_url]: incompatible value type: string required",
    ),
    (
        "/in",
        {"kind": "git_tree", "tree": "x"},
        "[/in][tree]: parameter is not supported for a git_tree mount",
    ),
    (
        "stdin",
        {"kind": "git_tree", "git_url": "x", "commit": "main"},
        "[stdin][kind]: unsupported value 'git_tree'",
    ),
    ("/in", {"kind": "keep"}, "[/in][kind]: keep needs runtime_constraints.API to be true"),
    (
        "/in",
        {"kind": "keep", "path": "x"},
        "[/in][path]: parameter is not supported for a keep mount",
    ),
    (
        "/in",
        {"kind": "file", "path": "/elsewhere/a"},
        "[/in][path]: /elsewhere/a is in no other mount",
    ),
    ("/in", {"kind": "file", "path": "/in/a"}, "[/in][path]: /in/a is in no other mount"),
    ("/in", {"kind": "file", "path": "/out//a"}, "[/in][path]: must be an absolute path"),
    (
        "stdin",
        {"kind": "file", "path": "/elsewhere/a"},
        "[stdin][path]: /elsewhere/a is in no other mount",
    ),
    (
        "stdout",
        {"kind": "file", "path": "/out"},
        "[stdout][path]: /out is not in a mount that the command can write",
    ),
    (
        "stderr",
        {"kind": "file", "path": "/elsewhere/a"},
        "[stderr][path]: /elsewhere/a is in no other mount",
    ),
    ("stdout", {"kind": "tmp"}, "[stdout][kind]: unsupported value 'tmp'; here it must be file"),
    ("stdin", {"kind": "tmp"}, "[stdin][kind]: unsupported value 'tmp'"),
    (
        "/in",
        {"kind": "tmp", "commit": "x"},
        "[/in][commit]: parameter is not supported for a tmp mount",
    ),
    ("/in", {"kind": "tmp", "capacity": 2**63}, "[/in][capacity]: must be a number of bytes"),
    (
        "/in",
        {"kind": "tmp", "capacity": "1"},
        "[/in][capacity]: incompatible value type: integer required",
    ),
    ("/in", {"kind": "tmp", "capacity": True}, "[/in][capacity]: incompatible value type"),
    ("/in", {"kind": "tmp", "capacity": -1}, "[/in][capacity]: must be a number of bytes"),
    (
        "/in",
        {"kind": "tmp", "device_type": "tape"},
        "[/in][device_type]: must be one of ram, ssd, disk, network",
    ),
    (
        "/in",
        {"kind": "collection", "uuid": 1},
        "[/in][uuid]: incompatible value type: string required",
    ),
    (
        "/in",
        {"kind": "collection", "writable": "yes"},
        "[/in][writable]: incompatible value type: boolean",
    ),
    ("/in", {"kind": "collection", "portable_data_hash": "x"}, "not a portable data hash: 'x'"),
    (
        "/in",
        {"kind": "collection", "portable_data_hash": INPUT + "/../x"},
        "[/in][portable_data_hash]: a path",
    ),
    (
        "/in",
        {"kind": "collection", "uuid": "zzzzz-tpzed-aaaaaaaaaaaaaaa"},
        "[/in][uuid]: not the uuid",
    ),
    (
        "/in",
        {"kind": "collection", "path": "a/../../b"},
        "[/in][path]: a path cannot contain '..' or NUL",
    ),
    ("/in", {"kind": "text"}, "[/in][content]: incompatible value type: string required"),
    ("/in", {"kind": "json"}, "[/in][content]: a json mount needs a content"),
    ("stderr", {"kind": "file", "path": "a"}, "[stderr][path]: must be an absolute path"),
    ("stderr", {"kind": "file", "path": "/out/../a"}, "[stderr][path]: a path cannot contain"),
]


def test_keep_needs_the_api() -> None:
    mounts.validate({**OUT, "/keep": {"kind": "keep"}}, {}, output_path="/out", has_api=True)


@pytest.mark.parametrize(("target", "spec"), GOOD)
def test_good_mounts(target: str, spec: Json) -> None:
    check(target, spec)


@pytest.mark.parametrize(("target", "spec", "fault"), BAD)
def test_bad_mounts_are_refused(target: str, spec: Json, fault: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check(target, spec)
    assert refusal.value.message.startswith("Mounts [")
    assert fault in refusal.value.message


def test_secret_mounts_take_text_and_json() -> None:
    check(secret={"/s": {"kind": "text", "content": "x"}, "stdin": {"kind": "json", "content": 1}})
    with pytest.raises(Invalid, match=r"Secret mounts \[/s\]\[kind\]: unsupported value 'tmp'"):
        check(secret={"/s": {"kind": "tmp"}})
    variable: Json = {"kind": "text", "content": "x", "environment_variable": "DB"}
    check(secret={"/s": variable})
    with pytest.raises(Invalid, match="parameter is not supported for a json mount"):
        check(secret={"/s": {"kind": "json", "content": 1, "environment_variable": "DB"}})
    with pytest.raises(Invalid, match=r"Mounts \[/s\]\[environment_variable\]: is for secret"):
        check("/s", variable)
    with pytest.raises(Invalid, match="must be stdin or an absolute path"):
        check(secret={"stdout": {"kind": "text", "content": "x"}})
    with pytest.raises(Invalid, match="conflict with non-secret mounts"):
        check(secret={"/out": {"kind": "text", "content": "x"}})


@pytest.mark.parametrize("output", ["/elsewhere", "/out/../x", "/out/", "stdout"])
def test_the_output_path_must_be_a_mount_or_lie_in_one(output: str) -> None:
    check("/out/deep", {"kind": "tmp"}, output="/out/deep/er/file.txt")
    with pytest.raises(Invalid, match="Output path must be a mount target, or lie in one"):
        check(output=output)


def test_an_output_path_inside_a_mount_needs_one_that_is_writable() -> None:
    with pytest.raises(
        Invalid, match="Output path lies in the mount /in, which the command cannot write to"
    ):
        check("/in", {"kind": "collection", "portable_data_hash": INPUT}, output="/in/x")


def test_a_file_mount_names_no_other_file_mount() -> None:
    given: JsonObject = {
        "/in": {"kind": "file", "path": "/out/a"},
        "/again": {"kind": "file", "path": "/in"},
    }
    with pytest.raises(Invalid, match="is in the file mount /in; name what that one names"):
        mounts.validate({**OUT, **given}, {}, output_path="/out")


def test_slower_storage_than_was_asked_for_is_told() -> None:
    tmp: dict[str, JsonObject] = {
        one: {"kind": "tmp", "device_type": one[1:]} for one in ("/ram", "/ssd", "/network")
    }
    given: JsonObject = {
        **tmp,
        "/out": {"kind": "tmp", "device_type": "ram"},
        "/text": {"kind": "text"},
    }
    assert mounts.slower(given, lambda: "ssd", output_path="/out/x") == (
        "mounts[/out]: asks for ram, the scratch of this machine is ssd",
    )
    assert len(mounts.slower(given, lambda: "disk", output_path="/out")) == 2
    assert mounts.slower(given, str, output_path="/out") == ()


def test_additional_zero_values_are_the_same_mounts() -> None:
    assert mounts.same_spelling(
        OUT, {"/out": {"kind": "tmp", "capacity": 1, "writable": False, "content": None}}
    )
    assert not mounts.same_spelling(OUT, {"/out": {"kind": "tmp", "capacity": 2}})
    assert not mounts.same_spelling(OUT, {})


def test_live_places() -> None:
    live: JsonObject = {"kind": "live", "root": "/work", "path": "a", "writable": True}
    found = mounts.live_places({**OUT, "/in": live, "/b": {"kind": "live", "root": "/data"}})
    assert found == (
        mounts.LivePlace("/in", "/work", "a", is_writable=True),
        mounts.LivePlace("/b", "/data", "", is_writable=False),
    )


REQUEST = "zzzzz-xvhdp-aaaaaaaaaaaaaaa"


def test_the_output_of_a_request_is_mounted_as_its_collection() -> None:
    spec: JsonObject = {"kind": "output", "container_request": REQUEST, "path": "a"}
    check("/in", spec)
    with pytest.raises(Invalid, match="not the uuid of a container request: 'x'"):
        check("/in", {**spec, "container_request": "x"})
    assert mount_resolution.resolve({"/in": spec}, {REQUEST: INPUT}) == {
        "/in": {"kind": "collection", "portable_data_hash": INPUT, "path": "a"}
    }
    with pytest.raises(Invalid, match=f"output of the request {REQUEST} cannot be mounted"):
        mount_resolution.resolve({"/in": spec}, {REQUEST: None})
