from __future__ import annotations

import pytest

from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Segment
from lading.fileserving.collection_cache import CachedCollection
from lading.webdav import serving
from lading.webdav.file_request import parse_address as parse

UUID = "zzzzz-4zz18-000000000000001"
FILE = File((Segment("x", 0, 5),))
SHELF = CachedCollection(uuid=UUID, pdh="p+1", etag="e", name="<name>", tree=FileTree())


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 60, "5120.0 PiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert serving.size_text(size) == text


def test_a_page_escapes_whatever_a_name_is() -> None:
    tree = filetree.from_files(
        {'"><script>alert(1)</script>': FILE, "javascript:x": FILE, "d&/f": FILE}
    )
    page = "".join(serving.page(SHELF, parse(f"/c={UUID}/a%3Cb%3E/"), tree))
    assert "<script" not in page
    assert "<b>" not in page
    assert "<name>" not in page
    assert f'href="/c={UUID}/a%3Cb%3E/javascript%3Ax"' in page
    assert f'href="/c={UUID}/a%3Cb%3E/d%26/">d&amp;/</a>' in page
    assert page.index("d&amp;/") < page.index("javascript:x")


def test_large_directories_come_in_pieces() -> None:
    tree = filetree.from_files({f"f{number}": FILE for number in range(1200)})
    assert len(list(serving.page(SHELF, parse(f"/c={UUID}"), tree))) == 3 + 3 + 2


def test_a_directory_alone_keeps_its_name() -> None:
    tree = filetree.from_files({"a/b/f": FILE, "g": FILE})
    assert [path for path, _ in filetree.walk(serving.subtree(tree, "a/b"))] == ["b", "b/f"]
    assert serving.subtree(tree, "") is tree
