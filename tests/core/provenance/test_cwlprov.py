"""The run of a workflow in CWLProv."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lading.core.provenance.cwl_packing import WorkflowStep, pack
from lading.core.provenance.cwl_values import StoredFile
from lading.core.provenance.cwlprov import (
    CWLPROV,
    PACKED,
    PROV_JSON,
    BagManifest,
    WorkflowRun,
    bag_info,
    prefixes,
)
from lading.core.provenance.prov_records import ProvRecord, prov_n
from tests.core.provenance.test_run_crate import make_step

TOOL = {"class": "CommandLineTool", "inputs": {"file": "File"}}
FLOW = {"cwlVersion": "v1.2", "class": "Workflow", "steps": {"sort": {"run": TOOL}}}
FILE = {"class": "File", "basename": "a", "checksum": "sha1$aa"}


def make_run(agent: str = "Ann", **container: Any) -> WorkflowRun:
    """The run of a workflow of one step."""
    workflow = pack(FLOW, {}, directory="../snapshot")
    return WorkflowRun(make_step(1, agent=agent, **container), workflow, version="1")


def kinds(records: Iterable[ProvRecord], kind: str) -> list[str]:
    """The records of a kind, in PROV-N."""
    return [prov_n(one) for one in records if one.kind == kind]


def test_the_run_used_its_inputs() -> None:
    run = make_run()
    records = list(run.begin({"file": FILE, "none": None}))
    (activity,) = kinds(records, "activity")
    assert f'prov:label="Run of {PACKED}#main"' in activity
    assert "wfprov:WorkflowRun" in activity
    (used,) = kinds(records, "used")
    assert "prov:role='wf:main/file'" in used
    plans = [one.key for one in records if one.kind == "entity" and one.key.startswith("wf:")]
    assert plans == ["wf:main", "wf:main/sort", "wf:main/sort/run"]
    assert 'prov:label="Ann"' in kinds(records, "agent")[0]
    assert f'prov:label="{run.user}"' in kinds(make_run(agent="").begin({}), "agent")[0]


def test_a_step_is_started_by_the_run_and_makes_outputs() -> None:
    run = make_run()
    plan = WorkflowStep(id="#main/sort", name="sort", inputs=frozenset({"file"}))
    records = list(run.step(make_step(2), plan, {"file": FILE}, {"out": FILE}))
    assert f"id:{run.uuid}" in kinds(records, "wasStartedBy")[0]
    assert "prov:role='wf:main/sort/out'" in kinds(records, "wasGeneratedBy")[0]
    assert "wf:main/sort)" in kinds(records, "wasAssociatedWith")[0]
    again = list(run.step(make_step(3), plan, {"file": FILE}, None))
    # The image and the file are known.
    assert kinds(again, "agent") == kinds(again, "entity") == kinds(again, "wasGeneratedBy") == []


def test_a_step_that_is_not_in_the_workflow() -> None:
    records = list(make_run().step(make_step(2), None, {"odd one": 1}, {}))
    assert kinds(records, "wasAssociatedWith")[0].endswith(", -)")
    assert "prov:role='wf:main/sorts/odd%20one'" in kinds(records, "used")[0]


def test_a_container_without_times_or_exit_code() -> None:
    step = make_step(2, started_at=None, finished_at=None, exit_code=None)
    (activity,) = kinds(make_run().step(step, None, {}, {}), "activity")
    assert "exitCode" not in activity


def test_the_outputs_of_the_run() -> None:
    run = make_run()
    (made,) = kinds(run.finish({"result": FILE}), "wasGeneratedBy")
    assert f"id:{run.uuid}" in made


def test_the_manifest_names_files_and_contents() -> None:
    run = make_run(agent="")
    manifest = BagManifest(run, published="2026-01-02", version="1")
    data = manifest.data(StoredFile("ab" * 20, 3))
    assert data["bundledAs"]["folder"] == "/data/ab/"
    assert data["bundledAs"]["uri"] == f"arcp://uuid,{run.uuid}/data/ab/{'ab' * 20}"
    provenance = manifest.file(PROV_JSON)
    assert provenance["uri"] == "provenance/primary.cwlprov.json"
    assert CWLPROV in provenance["conformsTo"]
    assert manifest.file(PACKED)["conformsTo"] == ["https://w3id.org/cwl/"]
    types = [manifest.file(one)["mediatype"] for one in ("a b.json", "x.cwl", "log.txt")]
    assert types == [
        "application/json",
        'text/x+yaml; charset="UTF-8"',
        'text/plain; charset="UTF-8"',
    ]
    assert manifest.file("a b.json")["uri"] == "../a%20b.json"
    rest = manifest.rest()
    assert rest["authoredBy"]["name"] == run.user
    assert rest["annotations"][0] == {
        "about": f"urn:uuid:{run.uuid}", "content": "/", "oa:motivatedBy": {"@id": "oa:describing"},
    }  # fmt: skip


def test_what_is_told_of_the_bag() -> None:
    run = make_run()
    lines = dict(bag_info(run, name="x", day="2026-01-02", version="1"))
    assert lines["External-Identifier"] == f"arcp://uuid,{run.uuid}/"
    assert prefixes(run.uuid)["wf"] == f"arcp://uuid,{run.uuid}/{PACKED}#"
