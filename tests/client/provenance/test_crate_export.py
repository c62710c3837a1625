"""Crates of a world: what goes in, and how it comes out on another server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.provenance.crate_export import CrateOptions, export_crate
from lading.client.provenance.crate_writing import CrateWriter
from lading.core.errors import Conflict
from tests.cli.site import Play, Site

OPTIONS = CrateOptions(published="2026-01-02", version="1", with_data=True, with_images=True)
CWL = {"cwlVersion": "v1.2", "class": "Workflow"}
RUNNER = {
    "/out": {"kind": "tmp", "capacity": 1000},
    "/var/lib/cwl/workflow.json": {"kind": "json", "content": CWL},
    "/var/lib/cwl/cwl.input.json": {"kind": "json", "content": {"x": 1}},
}


def run(stage: Site, **attributes: Any) -> Record:
    """A request that has run."""
    with stage.acting(Play(files={"a": b"12345", "b": b"678"})):
        request = stage.call(stage.world.submit("x", use_existing=False, **attributes))
        stage.lading("wait", request["uuid"])
    found: Record = stage.call(stage.world.ok("GET", f"container_requests/{request['uuid']}"))
    return found


def export(stage: Site, requests: Sequence[Record], place: Path) -> Path:
    """The crate of these requests."""

    async def write(api: ApiClient, blocks: BlockClient) -> int:
        with CrateWriter(place, packed=False) as writer:
            uuids = [one["uuid"] for one in requests]
            count = await export_crate(api, blocks, uuids, writer, OPTIONS)
            writer.finish()
            return count

    async def session() -> int:
        async with stage.connect() as held:
            return await write(held.api, held.blocks)

    assert stage.call(session()) == len(requests)
    return place


def test_the_workflow_of_a_runner_is_the_main_entity(stage: Site, tmp_path: Path) -> None:
    place = export(stage, [run(stage, mounts=RUNNER)], tmp_path / "crate")
    assert json.loads((place / "workflow.cwl").read_text()) == CWL
    assert json.loads((place / "job.json").read_text()) == {"x": 1}
    graph = json.loads((place / "ro-crate-metadata.json").read_text())["@graph"]
    entities = {one["@id"]: one for one in graph}
    assert entities["./"]["mainEntity"] == {"@id": "workflow.cwl"}
    assert entities["workflow.cwl"]["programmingLanguage"]["@id"].endswith("#cwl")


def test_what_the_documents_of_a_workflow_name_is_in_the_crate(stage: Site, tmp_path: Path) -> None:
    tool = stage.call(stage.world.collection({"tool.cwl": b"class: CommandLineTool"}))
    pdh = tool["portable_data_hash"]
    content = {**CWL, "steps": [{"run": f"keep:{pdh}/tool.cwl"}]}
    mounts = {**RUNNER, "/var/lib/cwl/workflow.json": {"kind": "json", "content": content}}
    place = export(stage, [run(stage, mounts=mounts)], tmp_path / "crate")
    assert (place / "data" / pdh / "tool.cwl").is_file()


def test_a_block_that_is_not_whole_in_files_is_kept(stage: Site, tmp_path: Path) -> None:
    block = stage.world.blocks.put(b"0123456789")
    part = stage.call(
        stage.world.ok("POST", "collections", {"manifest_text": f". {block} 2:3:part\n"})
    )
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/in": {"kind": "collection", "portable_data_hash": part["portable_data_hash"]},
    }
    place = export(stage, [run(stage, mounts=mounts)], tmp_path / "crate")
    assert (place / "blocks" / block).read_bytes() == b"0123456789"
    assert (place / "data" / part["portable_data_hash"] / "part").read_bytes() == b"234"


def test_the_files_of_an_image_are_told_from_data(stage: Site, tmp_path: Path) -> None:
    request = run(stage)
    directory = export(stage, [request], tmp_path / "crate")
    container = stage.call(stage.world.ok("GET", f"containers/{request['container_uuid']}"))
    graph = json.loads((directory / "ro-crate-metadata.json").read_text())["@graph"]
    subjects = {
        entity["@id"]: entity["about"]["@id"] if "about" in entity else None
        for entity in graph
        if entity["@id"].startswith("data/")
    }
    output, image = container["output"], container["container_image"]
    assert subjects[f"data/{output}/"] is None
    assert subjects[f"data/{image}/"] == f"#image-{image}"


def test_what_cannot_be_exported_is_named(stage: Site, tmp_path: Path) -> None:
    request = run(stage)
    output = f"collections/{request['output_uuid']}"
    pdh = stage.call(stage.world.ok("GET", output))["portable_data_hash"]
    rows = stage.call(stage.world.collections(filters=[["portable_data_hash", "=", pdh]]))
    for one in rows:
        stage.call(stage.world.ok("DELETE", f"collections/{one['uuid']}"))
    with pytest.raises(Conflict, match=f"{pdh[:32]}.*cannot be exported"):
        export(stage, [request], tmp_path / "crate")
    draft = stage.call(stage.world.submit("x", state="Uncommitted"))
    with pytest.raises(Conflict, match="has not run to its end"):
        export(stage, [draft], tmp_path / "other")
