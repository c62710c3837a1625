from __future__ import annotations

from urllib.parse import unquote

import pytest

from lading.core.errors import Malformed, NotFound
from lading.webdav import file_request
from lading.webdav.file_request import FileAddress

UUID = "zzzzz-4zz18-000000000000001"
HASH = "0" * 32


@pytest.mark.parametrize(
    ("raw", "collection", "path", "folder", "root", "token"),
    [
        (f"/c%3D{UUID}/a", UUID, "a", False, f"/c%3D{UUID}", None),
        (f"/c={UUID}", UUID, "", True, f"/c={UUID}", None),
        (f"/c={UUID}/", UUID, "", True, f"/c={UUID}", None),
        (f"/c={UUID}/a/b%20c", UUID, "a/b c", False, f"/c={UUID}", None),
        (f"/c={UUID}//a///b/", UUID, "a/b", True, f"/c={UUID}", None),
        (f"/by_id/{HASH}-5/a", f"{HASH}+5", "a", False, f"/by_id/{HASH}-5", None),
        (f"/c={HASH}%2B5/a", f"{HASH}+5", "a", False, f"/c={HASH}%2B5", None),
        (f"/c={HASH}+5+Ax@1/a", f"{HASH}+5", "a", False, f"/c={HASH}+5+Ax@1", None),
        (f"/collections/{UUID}/t=x/_/_", UUID, "_", False, f"/collections/{UUID}/t=x/_", "x"),
        (f"/c={UUID}/t=v2%2Fu%2Fs/a", UUID, "a", False, f"/c={UUID}/t=v2%2Fu%2Fs", "v2/u/s"),
        (f"/c={UUID}/t=v2/u/s/a/", UUID, "a", True, f"/c={UUID}/t=v2/u/s", "v2/u/s"),
        (f"/c={UUID}/t=/t=", UUID, "t=", False, f"/c={UUID}/t=", ""),
    ],
)
def test_parse(
    raw: str, collection: str, path: str, folder: bool, root: str, token: str | None
) -> None:
    wanted = FileAddress(collection=collection, path=path, folder=folder, root=root, token=token)
    assert file_request.parse_address(raw) == wanted
    assert file_request.is_file_path(unquote(raw)), "a path as it is routed, decoded"


@pytest.mark.parametrize(
    "raw", ["/", "/x", "/by_id", "/c=x", f"/c={HASH}", "/c=zzzzz-tpzed-000000000000001"]
)
def test_what_names_no_collection(raw: str) -> None:
    with pytest.raises(NotFound):
        file_request.parse_address(raw)


@pytest.mark.parametrize(
    "path", ["..", "a/../b", "%2e%2e/a", "a%2Fb", "a%00", "%ff", "n" * 256, "d/" * 300]
)
def test_what_no_file_is_called(path: str) -> None:
    with pytest.raises(Malformed):
        file_request.parse_address(f"/c={UUID}/{path}")


def test_addresses_of_other_paths() -> None:
    address = file_request.parse_address(f"/c={UUID}/a")
    assert address.url("x y/ü#?") == f"/c={UUID}/x%20y/%C3%BC%23%3F"
    assert (address.url("d", folder=True), address.url("", folder=True)) == (
        f"/c={UUID}/d/",
        f"/c={UUID}/",
    )
    assert address.editable
    assert not file_request.parse_address(f"/c={HASH}+5/a").editable


def test_destinations() -> None:
    for text in (f"/c={UUID}/a", f"https://Host:1/c={UUID}/a"):
        assert file_request.parse_destination(text, host="host:1").path == "a"
    for text in ("", "https://other/c=x/a", "/nowhere", "http://[", "relative"):
        with pytest.raises(Malformed, match="Destination"):
            file_request.parse_destination(text, host="host:1")
