from __future__ import annotations

import pytest

from lading.client.mount.layout import Fixed
from lading.client.mount.nodes import Listed, Node, Text, Unknown, find, peek
from lading.core.data.filetree import File, FileTree, Segment

FILE = File((Segment("acbd18db4cc2f85cedef654fccc4a4d8+3", 0, 3),))
TREE = FileTree({"dir": FileTree({"file": FILE}), "top": FILE})


async def _list() -> dict[str, Node]:
    return {"inner": TREE}


@pytest.mark.parametrize("path", ["tree/dir/file", "tree/top", "text"])
async def test_the_way_to_what_is_known(path: str) -> None:
    root = Fixed({"tree": TREE, "text": Text(b"x")}, 7.0)
    place = peek(root, path.split("/"))
    assert place is not None
    assert place == await find(root, path.split("/"))
    assert place.modified == 7.0


@pytest.mark.parametrize("path", ["absent", "tree/absent", "tree/top/below", "text/below"])
async def test_what_is_not_there(path: str) -> None:
    root = Fixed({"tree": TREE, "text": Text(b"x")}, 7.0)
    assert peek(root, path.split("/")) is None
    assert await find(root, path.split("/")) is None


async def test_what_only_the_server_knows() -> None:
    root = Fixed({"listed": Listed(_list, lambda: 0.0)}, 7.0)
    with pytest.raises(Unknown):
        peek(root, ["listed", "inner"])
    found = await find(root, ["listed", "inner", "top"])
    assert found is not None
    assert found.node is FILE
    assert peek(root, ["listed", "inner", "dir"]) is not None
