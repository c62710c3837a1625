"""Results of Python functions, and images of the Python environment, that another user has made."""

from __future__ import annotations

import base64
import inspect
import io
import json
import pickle
import sys
import zipfile
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from lading.client.function_runner import decode
from lading.client.functions import RemoteFunction, explain
from lading.client.images.links import find_image, list_images
from lading.client.runs import Run
from lading.core.data.filetree import File, FileTree, Segment
from lading.core.errors import Invalid, Malformed, TooLarge

UUID = "zzzzz-xvhdp-000000000000000"
EXECUTED: list[str] = []


class _Exploit:
    """Writes to a list where it is unpickled."""

    def __reduce__(self) -> Any:
        return EXECUTED.append, ("x",)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _npz() -> bytes:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(10 << 20))
    return stored.getvalue()


def _npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def _deep(before: str, after: str, depth: int = 50_000) -> bytes:
    return (before * depth + "1" + after * depth).encode()


WRONG: tuple[Any, ...] = (None, True, 1, -1.5, "", "x", [], [1], [[1]], {}, {"a": 1}, [None, None])
KINDS: tuple[Any, ...] = (
    "float", "dict", "tuple", "set", "bytes", "numpy", "output", "path", "pickle", "object",
    "__class__", "", "Output", "eval", None, 5, [], {},
)  # fmt: skip
RAW = (
    b"", b"\0", b"{", b"[1", b"nul", b"'x'", b"\xff\xfe", b"\x80\x04.", pickle.dumps(_Exploit()),
    b"1 2", b"{1: 2}", b'{"$"', b'"\\ud800', b"-", b"1" * 5000, b"0x1", b"\x1f\x8b", b"PK\3\4",
    b'{"$": "float"}', b'{"v": 1, "$": "set"}',
    _deep("[", "]"), _deep('{"a":', "}"), _deep('{"$":"tuple","v":[', "]}"),
    _deep('{"$":"dict","v":[[1,', "]]}"), _deep('{"$":"set","v":[', "]}", 400),
)  # fmt: skip
ARRAYS = (
    pickle.dumps(_Exploit()), pickle.dumps(_Exploit(), 0), b"", b"\x93NUMP", b"\x93NUMPY", _npz(),
    b"PK\3\4", b"PK\5\6" + bytes(18), b"\x80\x04N.", b"\x93NUMPY\x09\x00\0\0",
    _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n") + pickle.dumps(_Exploit()),
    _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 60,)}\n"),
    _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 18 + ",)}\n"),
    _npy("{'descr': '<f8', 'shape': (1,)}\n"), _npy("__import__('os')\n"), _npy("(" * 9000),
)  # fmt: skip
DAMAGED = [*RAW, *(json.dumps({"$": "numpy", "v": _text(one)}).encode() for one in ARRAYS)]
TAGGED = [(kind, value) for kind in KINDS for value in WRONG]
PLAIN = (float, str, bytes, dict, tuple, set)


def _function() -> RemoteFunction[..., Any]:
    return RemoteFunction(SimpleNamespace(), _add)


def _add(one: int, two: int = 2) -> int:
    """Called far away."""
    return one + two


def _output(kind: str, path: Any) -> Any:
    raise Invalid(f"{kind} {path}: no output")


@pytest.mark.attack("returns a value that runs code, fills memory, or breaks the caller")
@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_damaged_result(number: int) -> None:
    with pytest.raises(Malformed) as caught:
        _function().decoded(DAMAGED[number], _output, UUID)
    assert len(caught.value.message) <= 300
    assert caught.value.message.isprintable()
    assert EXECUTED == []


@pytest.mark.attack("returns a value of a kind whose content has the wrong type")
@pytest.mark.parametrize(("kind", "value"), TAGGED)
def test_kind_with_another_content(kind: Any, value: Any) -> None:
    text = json.dumps([{"$": kind, "v": value}]).encode()
    found: Any = None
    # Other errors, such as KeyError, are not clear.
    with suppress(Malformed, Invalid):
        (found,) = _function().decoded(text, _output, UUID)
    assert found is None or (type(found) in PLAIN and kind in KINDS[:5])


@pytest.mark.attack("hides an archive that expands, or a pickle, in an array")
@pytest.mark.parametrize("array", [one for one in ARRAYS if not one.startswith(b"\x93NUMPY")])
def test_arrays_are_no_archives(array: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any, **__: Any) -> Any:
        raise AssertionError("was given to numpy")

    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(load=load))
    with pytest.raises(ValueError, match="not an array"):
        decode({"$": "numpy", "v": _text(array)}, lambda kind, value: (kind, value))


@pytest.mark.attack("writes a result of terabytes, so as to fill the memory of the caller")
async def test_huge_result(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tree(*_: Any, **__: Any) -> FileTree:
        segment = Segment(f"{'0' * 32}+67108864", 0, 67108864)
        return FileTree({"result.json": File((segment,) * 20_000)})

    monkeypatch.setattr(Run, "tree", tree)
    with pytest.raises(TooLarge, match="write a file and return its path"):
        await Run(SimpleNamespace(), "x").read("result.json", most=1 << 30)


CONTENTS: tuple[Any, ...] = (
    None, 1, "", "[", "[]", "{}", "null", '"x"', '{"args": 1}', '{"args": [], "kwargs": []}',
    '{"args": {}, "kwargs": {}}', '{"args": null, "kwargs": {}}', '{"kwargs": {}}', {"content": 1},
    {"content": "[1]"}, {"content": None}, {}, [], [1], "[" * 50_000, "[" * 50_000 + "]" * 50_000,
    '{"args": "ab", "kwargs": {}}', '{"args": [1], "kwargs": "x"}', b"", "\x1b[2J",
)  # fmt: skip


@pytest.mark.attack("has run a container whose arguments break the explanation of others' calls")
@pytest.mark.parametrize("number", range(len(CONTENTS)))
def test_arguments_of_the_nearest_container(number: int) -> None:
    signature = inspect.signature(_add)
    ours = json.dumps({"args": [1, 2], "kwargs": {}})
    difference = {
        "field": "mounts./lading/args.content",
        "request": ours,
        "container": CONTENTS[number],
    }
    nearest = {"differences": [difference]}
    why = {"decision": {"decision": "new", "reason": "x", "nearest": nearest}}
    assert explain("f", why, signature) == "f: computed, other arguments"


def _image(digest: str, user: str, head: str, link_class: str, name: str) -> dict[str, Any]:
    return {
        "uuid": f"{head}-{name}",
        "link_class": link_class,
        "name": name or digest,
        "head_uuid": head,
        "owner_uuid": user,
        "modified_by_user_uuid": user,
        "created_at": "2026",
        "properties": {},
    }


class _Store:
    """Links and collections, as an API client gives them."""

    def __init__(self, links: list[dict[str, Any]], files: dict[str, str]) -> None:
        self.links, self.files = links, files

    async def list(self, plural: str, *, filters: Any, **_: Any) -> list[dict[str, Any]]:
        if plural == "links":
            return [
                one for one in self.links if all(one[key] == value for key, _, value in filters)
            ]
        return [await self.get(plural, uuid) for uuid in self.files if uuid in filters[0][2]]

    async def get(self, plural: str, uuid: str) -> dict[str, Any]:
        text = f". d41d8cd98f00b204e9800998ecf8427e+0 {self.files[uuid]}\n"
        return {
            "uuid": uuid,
            "owner_uuid": "u",
            "portable_data_hash": uuid,
            "file_size_total": 0,
            "created_at": "2026",
            "manifest_text": text,
        }

    async def pages(self, plural: str, **_: Any) -> Any:
        yield self.links


DIGEST = f"sha256:{'a' * 64}"
FILES = (
    f"0:0:sha256:{'b' * 64}.tar", "0:0:evil.tar", "0:0:evil", f"0:0:{DIGEST}.tar.x",
    f"0:0:dir/{DIGEST}.tar", f"0:0:{DIGEST}.tar 0:0:two.tar", f"0:0:{DIGEST}", "0:0:sha256:.tar",
    f"0:0:{DIGEST.upper()}.tar", "0:0:.tar",
)  # fmt: skip


@pytest.mark.attack("links the id of a public image to a collection with other programs")
@pytest.mark.parametrize("files", FILES)
async def test_id_of_another_image(files: str) -> None:
    store = _Store([_image(DIGEST, "evil", "c1", "docker_image_hash", "")], {"c1": files})
    assert await find_image(store, DIGEST) is None  # type: ignore[arg-type]
    store.links.append(_image(DIGEST, "me", "c2", "docker_image_hash", ""))
    store.files["c2"] = f"0:0:{DIGEST}.tar"
    found = await find_image(store, DIGEST)  # type: ignore[arg-type]
    assert found is not None
    assert found.collection_uuid == "c2"


@pytest.mark.attack("gives an image with other programs the name of others' Python environment")
async def test_name_of_an_environment() -> None:
    tag = "docker_image_repo+tag"
    name = "python-environment:0123"
    links = [
        _image(DIGEST, "me", "c1", "docker_image_hash", ""),
        _image(DIGEST, "evil", "c1", tag, name),
    ]
    store = _Store(links, {"c1": f"0:0:{DIGEST}.tar"})
    assert [one.names for one in await list_images(store)] == [(name,)]  # type: ignore[arg-type]
    mine = await list_images(store, named_by="me")  # type: ignore[arg-type]
    assert [one.names for one in mine] == [()]
