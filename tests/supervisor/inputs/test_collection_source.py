from __future__ import annotations

from pathlib import Path
from typing import Any

from lading.core.containers.mounting.mount_steps import GitTree
from lading.core.containers.output.plan import FileEntry
from lading.core.data import filetree
from lading.core.data.filetree import File
from lading.supervisor.inputs.collection_source import Inputs
from lading.testing.supervising import FakeServer
from tests.supervisor.inputs.stages import staged


def _many(server: FakeServer, count: int) -> list[str]:
    return [server.add_collection({"x": b"%d" % number}) for number in range(count)]


def _mounting(pdhs: list[str]) -> dict[str, Any]:
    return {
        f"/in/{number}": {"kind": "collection", "portable_data_hash": pdh}
        for number, pdh in enumerate(pdhs)
    }


async def test_many_collections_are_read_by_one_call(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    # So many that their hashes do not fit into an address.
    pdhs = _many(server, 90)
    stage = await staged(tmp_path, inputs, _mounting(pdhs))
    for bind in stage.binds:
        if bind.readonly:
            assert (Path(bind.source) / "x").read_text() == bind.target.rpartition("/")[2]
    assert len(stage.binds) == 91
    assert server.calls.count("GET collections") == 1
    await stage.close()


async def test_a_collection_of_many_files_is_read_alone(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    wide = server.add_collection({f"f{number}": b"" for number in range(1001)})
    stage = await staged(tmp_path, inputs, _mounting([*_many(server, 3), wide]))
    assert server.calls.count("GET collections") == 2
    (place,) = (Path(bind.source) for bind in stage.binds if bind.target == "/in/3")
    assert len(list(place.iterdir())) == 1001
    await stage.close()


async def test_collections_that_a_token_may_not_list_are_read_one_by_one(
    server: FakeServer, inputs: Inputs, tmp_path: Path
) -> None:
    server.faults["GET collections"] = [403]
    stage = await staged(tmp_path, inputs, _mounting(_many(server, 3)))
    assert server.calls.count("GET collections") == 4
    await stage.close()


async def test_of_equal_collections_the_one_kept_longest_is_read(
    server: FakeServer, inputs: Inputs
) -> None:
    pdhs = _many(server, 2)
    (first, second) = server.collections.values()
    for signature, trash_at in (("b", None), ("a", "2030-01-01T00:00:00Z")):
        text = first["manifest_text"].replace("+1 ", f"+1+A{signature * 40}@ffffffff ")
        assert text != first["manifest_text"]
        kept = server.store(first["manifest_text"])
        kept |= {"manifest_text": text, "trash_at": trash_at}
    first["trash_at"], second["trash_at"] = "2029-01-01T00:00:00Z", None
    await inputs.read_trees(pdhs)
    file = filetree.find(await inputs.tree(pdhs[0]), "x")
    assert isinstance(file, File)
    assert "+Abbbb" in file.segments[0].locator


async def test_git_trees_come_once_to_this_machine(inputs: Inputs, tmp_path: Path) -> None:
    fetched: list[GitTree] = []

    async def fetch(tree: GitTree, directory: Path) -> None:
        fetched.append(tree)
        (directory / ("blob" if tree.kind == "blob" else "run.sh")).write_text("x")

    inputs.fetch_git_tree = fetch
    mounts = {
        "/src": {"kind": "git_tree", "tree": "a" * 40},
        "/out-of": {"kind": "git_tree", "tree": "a" * 40},
        "/one": {"kind": "git_tree", "blob": "b" * 40},
    }
    for _ in range(2):
        stage = await staged(tmp_path, inputs, mounts)
        at = {bind.target: Path(bind.source) for bind in stage.binds}
        assert (at["/src"] / "run.sh").read_text() == at["/one"].read_text() == "x"
        assert stage.look(GitTree("a" * 40, "tree", "run.sh")) == FileEntry(1)
        await stage.close()
    assert fetched == [GitTree("b" * 40, "blob"), GitTree("a" * 40, "tree")]
