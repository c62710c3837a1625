from __future__ import annotations

import pytest

from lading.core.data import filetree
from lading.core.data.filetree import File
from lading.core.errors import LadingError
from lading.core.ids import EMPTY_PDH
from lading.fileserving.changes import Edit
from lading.webdav import edits
from lading.webdav.edits import Transfer

TREE = filetree.from_files({"d/f": File(), "g": File()})


def test_put() -> None:
    assert edits.edit_put(TREE, "g") == Edit({"/g": "manifest_text/file"}, 204)
    assert edits.edit_put(TREE, "new/deep/f").status == 201


def test_delete_and_make_directory() -> None:
    assert edits.edit_delete(TREE, "d") == Edit({"/d": ""}, 204)
    assert edits.edit_make_directory(TREE, "d/e") == Edit({"/d/e": EMPTY_PDH}, 201)


@pytest.mark.parametrize(
    ("move", "edit"),
    [
        (Transfer(source="g", target="h"), Edit({"/h": "current/g"}, 201)),
        (Transfer(source="g", target="h", away=True), Edit({"/h": "current/g", "/g": ""}, 201)),
        (Transfer(source="d/f", target="d", away=True), Edit({"/d": "current/d/f"}, 204)),
        (Transfer(source="d", target="h", shallow=True), Edit({"/h": EMPTY_PDH}, 201)),
        (Transfer(source="g", target="h", shallow=True), Edit({"/h": "current/g"}, 201)),
    ],
)
def test_transfer(move: Transfer, edit: Edit) -> None:
    assert edits.edit_transfer(TREE, move) == edit


@pytest.mark.parametrize(
    ("move", "status"),
    [
        (Transfer(source="x", target="h"), 404),
        (Transfer(source="", target="h"), 403),
        (Transfer(source="g", target=""), 403),
        (Transfer(source="d", target="d/e"), 403),
        (Transfer(source="g", target="g"), 403),
        (Transfer(source="g", target="x/y"), 409),
        (Transfer(source="d", target="g/y"), 409),
        (Transfer(source="g", target="d", overwrite=False), 412),
    ],
)
def test_transfers_that_are_refused(move: Transfer, status: int) -> None:
    with pytest.raises(LadingError) as caught:
        edits.edit_transfer(TREE, move)
    assert caught.value.status == status


def test_content_of_another_collection() -> None:
    node = filetree.get(TREE, "d")
    assert edits.edit_receive(
        TREE, Transfer(source="", target="n"), node=TREE, origin="x+1"
    ) == Edit({"/n": "x+1"}, 201)
    assert edits.edit_receive(
        TREE, Transfer(source="d", target="n"), node=node, origin="x+1"
    ).files == {"/n": "x+1/d"}
