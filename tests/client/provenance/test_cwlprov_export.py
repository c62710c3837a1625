"""Runs of CWL workflows as research objects: a runner and its steps, as they are recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import Record
from lading.client.provenance.bag_writing import BagWriter
from lading.client.provenance.cwlprov_export import BagOptions, export_cwlprov
from lading.core.errors import Conflict
from lading.testing.world import World
from tests.cli.site import Site

OPTIONS = BagOptions(published="2026-01-02T03:04:05+00:00", version="1")
TOOL = b"class: CommandLineTool\ncwlVersion: v1.2\nbaseCommand: sort\ninputs: {file: File}\n"
FLOW = b"class: Workflow\ncwlVersion: v1.2\ninputs: {}\nsteps: {sort: {run: tool.cwl}}\n"
RESULT = {
    "result": {"class": "File", "location": "sorted.txt", "basename": "sorted.txt"},
    "all": {"class": "Directory", "location": "folder", "basename": "folder"},
    "said": {"class": "File", "contents": "text", "basename": "said"},
}
OUTPUT = {"sorted.txt": b"a\nb\n", "folder/x": b"x", "folder/sub/y": b"y"}


async def _stored(it: World, files: Mapping[str, bytes]) -> str:
    return str((await it.collection(files))["portable_data_hash"])


async def play_workflow(
    it: World, files: Mapping[str, bytes], output: Mapping[str, bytes], **inputs: Any
) -> Record:
    """A workflow of one step that has run: the request of its runner."""
    flow, data = await _stored(it, files), await _stored(it, {"in.txt": b"b\na\n"})
    given = {"class": "File", "location": f"keep:{data}/in.txt", "basename": "in.txt"}
    step = {"id": "#main/flow", "in": [], "out": [], "run": f"keep:{flow}/flow.cwl"}
    main = {"class": "Workflow", "id": "#main", "steps": [step]}
    mounts = {
        "/out": {"kind": "tmp", "capacity": 1000},
        "/var/lib/cwl/workflow.json": {
            "kind": "json", "content": {"cwlVersion": "v1.2", "$graph": [main]},
        },
        "/var/lib/cwl/cwl.input.json": {"kind": "json", "content": {"file": given, **inputs}},
    }  # fmt: skip
    runner = await it.submit("arvados-cwl-runner", name="chain", mounts=mounts)
    held = runner["container_uuid"]
    supervisor = await it.lock(held)
    await it.ok("PUT", f"containers/{held}", {"state": "Running"}, token=supervisor)
    made = await _stored(it, {"sorted.txt": b"a\nb\n"})
    told = {"class": "File", "location": f"keep:{made}/sorted.txt", "basename": "sorted.txt"}
    child = await it.submit(
        "sort",
        name="sort_2",
        requesting_container_uuid=held,
        use_existing=False,
        properties={"cwl_input": {"file": given}, "cwl_output": {"sorted": told}},
    )
    await it.run(child["container_uuid"], output=made)
    pdh = await _stored(it, output)
    log = await _stored(it, {"stderr.txt": b"ran\n"})
    ending = {"state": "Complete", "exit_code": 0, "output": pdh, "log": log}
    await it.ok("PUT", f"containers/{held}", ending, token=supervisor)
    return runner


def export(stage: Site, uuid: str, place: Path) -> list[tuple[int, int]]:
    """Write the bag of a run; what was told of its progress."""
    told: list[tuple[int, int]] = []

    async def write() -> None:
        with BagWriter(place, packed=False) as writer:
            async with stage.connect() as held:
                await export_cwlprov(
                    held.api, held.blocks, uuid, writer, OPTIONS,
                    progress=lambda done, total: told.append((done, total)),
                )  # fmt: skip

    stage.call(write())
    return told


def test_a_workflow_with_its_steps_and_files(stage: Site, tmp_path: Path) -> None:
    output = {**OUTPUT, "cwl.output.json": json.dumps(RESULT).encode()}
    files = {"flow.cwl": FLOW, "tool.cwl": TOOL}
    runner = stage.call(play_workflow(stage.world, files, output))
    bag = tmp_path / "bag"
    assert export(stage, runner["uuid"], bag) == [(1, 1)]
    packed = json.loads((bag / "workflow/packed.cwl").read_text())
    assert [one["id"] for one in packed["$graph"]] == ["#main", "#flow.cwl", "#tool.cwl"]
    job = json.loads((bag / "workflow/primary-job.json").read_text())
    assert (bag / "workflow" / job["file"]["location"]).read_bytes() == b"b\na\n"
    outputs = json.loads((bag / "workflow/primary-output.json").read_text())
    assert (bag / "workflow" / outputs["result"]["location"]).read_bytes() == b"a\nb\n"
    assert (bag / "workflow" / outputs["said"]["location"]).read_bytes() == b"text"
    assert [one["basename"] for one in outputs["all"]["listing"]] == ["x", "sub"]
    text = (bag / "metadata/provenance/primary.cwlprov.provn").read_text()
    assert "prov:role='wf:flow.cwl/sort/sorted'" in text
    manifest = json.loads((bag / "metadata/manifest.json").read_text())
    payload = [one for one in manifest["aggregates"] if "bundledAs" in one]
    # in.txt, sorted.txt, x, y and the text: each content once.
    assert len(payload) == sum(path.is_file() for path in (bag / "data").rglob("*")) == 5
    assert [path.read_bytes() for path in (bag / "snapshot").rglob("tool.cwl")] == [TOOL]
    assert any(path.name == "stderr.txt" for path in (bag / "metadata/logs").rglob("*"))


def test_documents_that_cannot_be_read_stay_files(stage: Site, tmp_path: Path) -> None:
    files = {"flow.cwl": b"steps: [", "other": b"x"}
    runner = stage.call(play_workflow(stage.world, files, {"x": b"x"}))
    export(stage, runner["uuid"], tmp_path / "bag")
    packed = json.loads((tmp_path / "bag/workflow/packed.cwl").read_text())
    run = packed["$graph"][0]["steps"][0]["run"]
    assert run.startswith("../snapshot/")
    assert (tmp_path / "bag/workflow" / run).is_file()
    # It did not come so far as to tell its outputs.
    assert (tmp_path / "bag/workflow/primary-output.json").read_text() == "{}\n"


def test_a_file_of_the_workflow_that_is_not_there(stage: Site, tmp_path: Path) -> None:
    runner = stage.call(play_workflow(stage.world, {"other": b"x"}, {"x": b"x"}))
    export(stage, runner["uuid"], tmp_path / "bag")
    assert (tmp_path / "bag/workflow/packed.cwl").is_file()


def test_what_cannot_be_written_is_named(stage: Site, tmp_path: Path) -> None:
    plain = stage.call(stage.world.submit("x"))
    stage.call(stage.world.run(plain["container_uuid"]))
    with pytest.raises(Conflict, match="no run of a CWL workflow"):
        export(stage, plain["uuid"], tmp_path / "a")
    bad = {"cwl.output.json": b"{"}
    runner = stage.call(play_workflow(stage.world, {"flow.cwl": FLOW}, bad))
    with pytest.raises(Conflict, match="is no JSON"):
        export(stage, runner["uuid"], tmp_path / "b")
    gone = {"class": "File", "location": f"keep:{plain['container_image']}/no"}
    runner = stage.call(play_workflow(stage.world, {"flow.cwl": FLOW}, {"x": b""}, gone=gone))
    with pytest.raises(Conflict, match="is not in its collection"):
        export(stage, runner["uuid"], tmp_path / "c")
    bomb = b"a: &a [" + b"1," * 400 + b"]\nb: &b [" + b"*a," * 400 + b"]\nclass: Workflow\n"
    runner = stage.call(play_workflow(stage.world, {"flow.cwl": bomb}, {"x": b""}))
    with pytest.raises(Conflict, match="too many values"):
        export(stage, runner["uuid"], tmp_path / "d")
