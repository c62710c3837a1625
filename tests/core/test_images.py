from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import images
from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account, ImageConfig, Whiteout

DIFF_ID = "sha256:" + "a" * 64
PASSWD = (
    "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:100:Ann:/home/ann:/bin/sh\nodd:x:x:1:::\n"
    "bob:x:²:0:::\n"
)
GROUP = "root:x:0:\nusers:x:100:\naudio:x:29:bob,ann\nshort:x:3\n"


def deep(before: str, after: str) -> bytes:
    """A document whose unused member is nested deeper than any decoder goes."""
    return f'{before}"x":{"[" * 100_000}{"]" * 100_000}{after}'.encode()


def config(**changes: Any) -> bytes:
    return json.dumps(
        {"config": {}, "rootfs": {"diff_ids": [DIFF_ID]}, "os": "linux", **changes}
    ).encode()


def test_the_one_archive_names_the_image() -> None:
    assert images.image_member(["sha256:ab.tar", "README", "sub/x.tar"]) == (
        "sha256:ab.tar",
        "sha256:ab",
    )


@pytest.mark.parametrize("names", [[], ["a.tar", "b.tar"], ["a.tar.gz"]])
def test_none_or_several_archives_are_no_image(names: list[str]) -> None:
    with pytest.raises(ExecutionError, match="exactly one") as caught:
        images.image_member(names)
    assert caught.value.failure is Failure.IMAGE


def test_the_manifest_names_configuration_and_layers() -> None:
    saved = images.parse_manifest(b'[{"Config":"c.json","RepoTags":null,"Layers":["1/layer.tar"]}]')
    assert (saved.config, saved.layers) == ("c.json", ("1/layer.tar",))


@pytest.mark.parametrize(
    "data",
    [b"x", b"{}", b"[]", b'[{"Config":1,"Layers":[]}]', b'[{"Config":"\xff"}]', deep("[{", "}]")],
)
def test_a_bad_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ExecutionError, match=r"manifest\.json"):
        images.parse_manifest(data)


def test_the_configuration() -> None:
    settings = {"Entrypoint": ["e"], "Cmd": ["c"], "Env": ["A=b"], "WorkingDir": "/w", "User": "u"}
    assert images.parse_config(config(config=settings), layers=1) == ImageConfig(
        diff_ids=(DIFF_ID,),
        entrypoint=("e",),
        command=("c",),
        environment=("A=b",),
        working_directory="/w",
        user="u",
    )


def test_commands_as_texts_and_volumes() -> None:
    settings = {
        "Entrypoint": "/bin/cat",
        "Cmd": "",
        "Volumes": {"data/": {}, "/": {}, "/a/../b": {}},
    }
    found = images.parse_config(config(config=settings), layers=1)
    assert (found.entrypoint, found.command) == (("/bin/cat",), ())
    assert found.volumes == ("/b", "/data")


@pytest.mark.parametrize(
    "settings", [None, {}, {"Entrypoint": None, "Env": None, "WorkingDir": None, "User": None}]
)
def test_a_configuration_that_says_nothing(settings: object) -> None:
    assert images.parse_config(config(config=settings), layers=1) == ImageConfig(
        diff_ids=(DIFF_ID,)
    )


@pytest.mark.parametrize(
    ("data", "layers"),
    [
        (b"x", 1),
        (config(), 2),
        (deep("{", "}"), 1),
        (b'{"rootfs":{"diff_ids":["\xff"]}}', 1),
        (config(rootfs={"diff_ids": []}), 0),
        (config(rootfs={"diff_ids": ["md5:" + "a" * 64]}), 1),
        (config(rootfs={"diff_ids": ["sha256:../" + "a" * 61]}), 1),
        (config(rootfs={"diff_ids": ["sha256:a"]}), 1),
    ],
)
def test_a_bad_configuration_is_refused(data: bytes, layers: int) -> None:
    with pytest.raises(ExecutionError):
        images.parse_config(data, layers=layers)


def test_the_record_wins_over_the_image() -> None:
    image = ImageConfig(
        diff_ids=(DIFF_ID,), entrypoint=("e",), environment=("A=1", "B=2"), working_directory="w"
    )
    made = images.process(image, command=["c"], environment=[("B", "3")], cwd="/x/../y")
    assert made.arguments == ("e", "c")
    assert dict(made.environment) == {"PATH": images.DEFAULT_PATH, "A": "1", "B": "3"}
    assert made.cwd == "/y"


@pytest.mark.parametrize(
    ("cwd", "expected"), [("", "/w"), (".", "/w"), ("/x", "/x"), ("rel", "/w/rel"), ("../x", "/x")]
)
def test_the_directory_of_the_image_is_the_default(cwd: str, expected: str) -> None:
    image = ImageConfig(diff_ids=(DIFF_ID,), command=("c",), working_directory="w")
    made = images.process(image, command=[], environment=[], cwd=cwd)
    assert (made.cwd, made.arguments) == (expected, ("c",))


@pytest.mark.parametrize(
    ("command", "entrypoint", "default"), [(["c"], (), ()), ([], ("e",), ()), ([], (), ("d",))]
)
def test_a_command_may_be_the_image_s(
    command: list[str], entrypoint: tuple[str, ...], default: tuple[str, ...]
) -> None:
    image = ImageConfig(diff_ids=(DIFF_ID,), entrypoint=entrypoint, command=default)
    images.check_command(image, command)


def test_a_command_that_nobody_names_is_refused() -> None:
    with pytest.raises(ExecutionError, match="neither CMD nor ENTRYPOINT; name a command"):
        images.check_command(ImageConfig(diff_ids=(DIFF_ID,)), [])


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", Account(0, 0)),
        ("ann", Account(1000, 100, (29,))),
        ("1000", Account(1000, 100, (29,))),
        ("4242", Account(4242, 0)),
        ("ann:audio", Account(1000, 29)),
        ("ann:7", Account(1000, 7)),
        (":100", Account(0, 100)),
    ],
)
def test_users_of_the_image(user: str, expected: Account) -> None:
    assert images.account(user, passwd=PASSWD, group=GROUP) == expected


@pytest.mark.parametrize(
    "user",
    ["nobody", "ann:nogroup", "odd", "9" * 5000, "²", "0:²", "4294967295", "0:99999999999", "bob"],
)
def test_an_unknown_user_is_refused(user: str) -> None:
    with pytest.raises(ExecutionError, match="not in its /etc"):
        images.account(user, passwd=PASSWD, group=GROUP)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b", None),
        ("a/.wh.b", Whiteout("a/b", opaque=False)),
        (".wh.b", Whiteout("b", opaque=False)),
        ("a/.wh..wh..opq", Whiteout("a", opaque=True)),
    ],
)
def test_whiteouts(path: str, expected: Whiteout | None) -> None:
    assert images.whiteout(path) == expected


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a/..", "a\0b"])
def test_a_member_cannot_lead_out(name: str) -> None:
    with pytest.raises(ExecutionError, match="out of the layer"):
        images.member_path(name)


@given(st.text(alphabet="ab./", max_size=12).filter(lambda name: ".." not in name.split("/")))
def test_a_member_path_is_relative_and_plain(name: str) -> None:
    path = images.member_path(name)
    assert path == "" or all(part not in ("", ".", "..") for part in path.split("/"))


@pytest.mark.parametrize("path", [".wh.", "a/.wh..", ".wh...", "a/.wh..."])
def test_a_whiteout_cannot_remove_what_it_is_in(path: str) -> None:
    with pytest.raises(ExecutionError, match="removes nothing below it"):
        images.whiteout(path)


@pytest.mark.parametrize("name", ["n" * 256, "é" * 128, "\udcff" * 256, "d/" * 10_000])
def test_a_member_has_a_name_that_file_systems_take(name: str) -> None:
    with pytest.raises(ExecutionError, match="too long") as caught:
        images.member_path(name)
    assert len(caught.value.message) < 1000
    assert images.member_path(f"./{'n' * 255}/é") == f"{'n' * 255}/é"


def test_a_member_lies_only_so_deep() -> None:
    with pytest.raises(ExecutionError, match="more than 256 directories deep"):
        images.member_path("d/" * 257)
    assert images.member_path("d/" * 256).count("/") == 255


@pytest.mark.parametrize(
    "settings", [{"User": "a\0b"}, {"Env": ["A=1", "B=\0"]}, {"WorkingDir": "/\0"}]
)
def test_settings_with_a_nul_are_refused_for_good(settings: object) -> None:
    with pytest.raises(ExecutionError, match="has a NUL in") as caught:
        images.parse_config(config(config=settings), layers=1)
    assert caught.value.failure is Failure.IMAGE


def test_architectures_have_the_names_of_images() -> None:
    assert [images.goarch(name) for name in ("x86_64", "aarch64", "riscv64")] == [
        "amd64",
        "arm64",
        "riscv64",
    ]


@pytest.mark.parametrize("architecture", ["", "amd64", "386"])
def test_an_image_for_this_machine(architecture: str) -> None:
    images.check_architecture(architecture, "x86_64", is_emulated=False)


def test_an_image_for_another_machine() -> None:
    images.check_architecture("arm64", "x86_64", is_emulated=True)
    with pytest.raises(ExecutionError, match="for arm64, and this machine is amd64") as caught:
        images.check_architecture("arm64", "x86_64", is_emulated=False)
    assert caught.value.failure is Failure.IMAGE
