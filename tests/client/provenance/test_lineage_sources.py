"""Git trees, workflows, users and withdrawn results in a lineage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.provenance.lineage import Lineage, find_content_lineage, find_lineage
from lading.client.provenance.lineage_sources import add_sources, keep_readers, mark_withdrawn
from lading.core.drawing.folding import LineageNode
from lading.testing.world import world
from tests.client.provenance.test_causes import OUT, _Pipelines


@pytest.fixture
async def lines(tmp_path: Path) -> AsyncIterator[_Pipelines]:
    async with world(tmp_path) as here:
        yield _Pipelines(here)


async def _lineage(lines: _Pipelines, request: Record) -> Lineage:
    return await find_lineage(lines.api, request)


async def test_workflows_and_users(lines: _Pipelines) -> None:
    definition = "cwlVersion: v1.2\nclass: Workflow\n"
    attributes = {"name": "flow", "definition": definition}
    workflow = await lines.here.ok("POST", "workflows", attributes)
    made = await lines.run("step", b"1", properties={"template_uuid": workflow["uuid"]})
    drawn = await _lineage(lines, made)
    await add_sources(lines.api, drawn, with_users=True)
    kinds = {node.kind: node.name for node in drawn.nodes.values()}
    assert kinds["workflow"] == "flow"
    assert "user" in kinds
    assert (workflow["uuid"], made["container_uuid"]) in drawn.edges
    bare = await _lineage(lines, made)
    await add_sources(lines.api, bare, with_users=False)
    assert "user" not in {node.kind for node in bare.nodes.values()}


async def test_git_trees(lines: _Pipelines) -> None:
    drawn = Lineage(start="c")
    drawn.add(LineageNode(key="c", kind="request", name="c"))
    mount = {"kind": "git_tree", "git_url": "https://example.org/x", "commit": "a" * 40}
    drawn.containers = {"c": {"mounts": {"/src": mount, "/o": {"kind": "tmp"}}}}
    await add_sources(lines.api, drawn, with_users=False)
    (node,) = [one for one in drawn.nodes.values() if one.kind == "git tree"]
    assert node.name == f"https://example.org/x {'a' * 12}"
    assert drawn.edges == [(node.key, "c")]


async def test_what_comes_from_a_withdrawn_result_is_marked(lines: _Pipelines) -> None:
    last = await lines.pipeline(b"a")
    drawn = await _lineage(lines, last)
    mark_withdrawn(drawn)
    assert all("withdrawn" not in node.state for node in drawn.nodes.values())
    held = next(key for key, one in drawn.containers.items() if one["command"] == ["step0"])
    await lines.here.ok("POST", f"containers/{held}/withdraw", {"reason": "bad"})
    drawn = await _lineage(lines, last)
    mark_withdrawn(drawn)
    states = {node.name: node.state for node in drawn.nodes.values() if node.kind == "request"}
    assert states["step0"] == "done, withdrawn"
    assert states["step2"] == "done, from withdrawn"


def _reads(pdh: str, path: str) -> dict[str, Any]:
    return {**OUT, "/in": {"kind": "collection", "portable_data_hash": pdh, "path": path}}


async def test_uses_of_one_file(lines: _Pipelines) -> None:
    here = lines.here
    made = await here.collection({"a": b"1", "b": b"2"})
    pdh = str(made["portable_data_hash"])
    for name, path in (("whole", ""), ("one", "a"), ("other", "b")):
        request = await here.submit(name, name=name, mounts=_reads(pdh, path))
        output = await here.collection({"x": name.encode()})
        await here.run(request["container_uuid"], output=output["portable_data_hash"])
    drawn = await find_content_lineage(ApiClient(lines.api.transport, here.admin), made)
    keep_readers(drawn, "a")
    readers = {drawn.nodes[end].name for start, end in drawn.edges if start == pdh}
    assert readers == {"whole", "one"}
