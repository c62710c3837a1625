"""Two whole trees, step by step."""

from __future__ import annotations

from lading.client.provenance.tree_differences import compare_trees
from tests.client.provenance.test_causes import _Pipelines, lines

__all__ = ["lines"]


async def test_steps_are_paired_by_their_names(lines: _Pipelines) -> None:
    theirs = await lines.pipeline(b"a", environment={"Q": "1"})
    ours = await lines.pipeline(b"b", environment={"Q": "2"})
    found = await compare_trees(lines.api, theirs["uuid"], ours["uuid"])
    assert [(one.name, len(one.fields), one.explained) for one in found] == [
        ("step0", 1, ()), ("step1", 0, ("/in",)), ("step2", 0, ("/in",)),
    ]  # fmt: skip
    assert all(one.differs for one in found)
    same = await compare_trees(lines.api, ours["uuid"], ours["uuid"])
    assert not any(one.differs for one in same)


async def test_steps_of_one_tree_alone(lines: _Pipelines) -> None:
    short = await lines.run("other", b"o")
    waiting = await lines.here.submit("later", name="waits")
    found = await compare_trees(lines.api, short["uuid"], waiting["uuid"])
    assert [(one.name, one.before is None, one.after is None) for one in found] == [
        ("other", False, True), ("waits", True, False),
    ]  # fmt: skip
