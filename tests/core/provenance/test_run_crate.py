"""The metadata of a run crate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from lading.core.ids import EMPTY_PDH
from lading.core.provenance.run_crate import (
    PROV,
    CrateFile,
    CrateGraph,
    CrateImage,
    CrateStep,
    CrateWorkflow,
)

IN, OUT, IMAGE = (letter * 32 + "+9" for letter in "abc")
CONTAINER: dict[str, Any] = {
    "uuid": "zzzzz-dz642-000000000000000", "container_image": IMAGE, "command": ["sort", "a b"],
    "mounts": {
        "/in": {"kind": "collection", "portable_data_hash": IN, "path": "x"},
        "/out": {"kind": "tmp"},
    },
    "cwd": ".", "output_path": "/out", "environment": {"Q": "1"}, "state": "Complete",
    "exit_code": 0, "output": OUT, "runtime_status": {},
    "started_at": "2026-01-02T03:04:05Z", "finished_at": "2026-01-02T03:04:06Z",
}  # fmt: skip
REQUEST: dict[str, Any] = {
    "uuid": "zzzzz-xvhdp-000000000000000", "name": "sorts", "owner_uuid": "zzzzz-tpzed-1",
    "committed_by_uuid": "zzzzz-tpzed-2",
    "modified_by_user_uuid": "zzzzz-tpzed-3",
}  # fmt: skip
WORKFLOW = CrateWorkflow(path="workflow.json", language="lading")
_ENDING = {"name": "n", "published": "2026-01-02", "version": "1", "license_text": "l"}


def make_step(number: int = 0, agent: str = "", **container: Any) -> CrateStep:
    end = f"{number:015}"
    return CrateStep(
        request={**REQUEST, "uuid": f"zzzzz-xvhdp-{end}"},
        container={**CONTAINER, "uuid": f"zzzzz-dz642-{end}", **container},
        agent=agent,
    )


def _entities(
    *steps: CrateStep, files: Sequence[CrateFile] = (), **more: Any
) -> dict[str, dict[str, Any]]:
    graph = CrateGraph(**{"images": {}, **more})
    found = [entity for one in files for entity in graph.file(one)]
    found += [entity for one in steps for entity in graph.step(one)]
    if more.get("with_data"):
        found += graph.content(OUT, [f"data/{OUT}/x y"], is_image=False)
    found += graph.finish(**_ENDING)
    entities = {one["@id"]: one for one in found}
    assert len(entities) == len(found)
    return entities


def test_an_empty_content_has_no_directory_in_the_crate() -> None:
    found = _entities(make_step(output=EMPTY_PDH), make_step(1), with_data=True)
    assert found[f"#content-{EMPTY_PDH}"]["description"] == "It has no files."
    assert found["#zzzzz-dz642-000000000000000"]["result"] == [{"@id": f"#content-{EMPTY_PDH}"}]
    assert not [*CrateGraph(images={}, with_data=True).content(EMPTY_PDH, [], is_image=False)]
    assert f"data/{EMPTY_PDH}/" not in str(found)


def test_what_a_container_read_and_made() -> None:
    images = {IMAGE: CrateImage(names=("t:1",), sha256="d")}
    found = _entities(make_step(agent="Ann"), images=images)
    assert found["./"]["mentions"] == [{"@id": f"#{CONTAINER['uuid']}"}]
    assert "mainEntity" not in found["./"]
    action = found[f"#{CONTAINER['uuid']}"]
    assert action["description"] == "sort 'a b'"
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert "error" not in action
    named = [found[one["@id"]] for one in action["object"]]
    assert [(one["name"], one.get("value")) for one in named] == [
        (IN, None), ("/in", f"{IN}/x"), ("Q", "1"),
    ]  # fmt: skip
    assert [found[one["@id"]]["identifier"] for one in action["result"]] == [OUT]
    image = found[action["containerImage"]["@id"]]
    assert (image["name"], image["sha256"]) == ("t:1", "d")
    assert found[action["agent"]["@id"]]["name"] == "Ann"
    assert found[action["instrument"]["@id"]]["name"] == "sort"


def test_failures_and_what_is_not_known() -> None:
    failed = _entities(make_step(exit_code=3, output=None, command=[], environment=None))
    action = failed[f"#{CONTAINER['uuid']}"]
    assert (action["error"], "result" in action) == ("exit code 3", False)
    assert action["agent"] == {"@id": "#zzzzz-tpzed-2"}
    assert "sha256" not in failed[f"#image-{IMAGE}"]
    lost = make_step(state="Cancelled", exit_code=None, runtime_status={"error": "no disk"})
    assert _entities(lost)[f"#{CONTAINER['uuid']}"]["error"] == "no disk"


def test_evidence_is_told() -> None:
    evidence = {"reproduced": 2, "of": 3}
    one = CrateStep(request=REQUEST, container=CONTAINER, evidence=evidence)
    action = _entities(one)[f"#{CONTAINER['uuid']}"]
    assert action["disambiguatingDescription"] == "Reproduced 2 of 3 times."


def test_one_action_for_a_container_that_two_requests_share() -> None:
    assert len(_entities(make_step(), make_step())["./"]["mentions"]) == 1


def test_files_and_data_that_are_in_the_crate() -> None:
    paths = ["manifests/a.txt", "records/r.json", "x y", PROV]
    files = [CrateFile(path=path, size=3, sha256="s") for path in paths]
    found = _entities(make_step(), files=files, with_data=True)
    dataset = found[f"data/{OUT}/"]
    assert dataset["hasPart"] == [{"@id": f"data/{OUT}/x%20y"}]
    parts = {one["@id"] for one in found["./"]["hasPart"]}
    assert parts == {"manifests/a.txt", "records/r.json", "x%20y", PROV, f"data/{OUT}/"}
    assert found["records/r.json"]["contentSize"] == "3"
    assert found["x%20y"]["name"] == "x y"
    formats = [found[one]["encodingFormat"] for one in ("records/r.json", "x%20y", PROV)]
    assert formats == ["application/json", "application/octet-stream", "application/ld+json"]
    assert found[PROV]["conformsTo"] == {"@id": "http://www.w3.org/ns/prov-o#"}


def test_the_archive_of_an_image_is_about_it() -> None:
    graph = CrateGraph(images={})
    (made,) = graph.content(IMAGE, ["a.tar"], is_image=True)
    assert made["about"] == {"@id": f"#image-{IMAGE}"}


def test_a_workflow_with_its_steps_and_its_run() -> None:
    first = make_step(1, output=OUT)
    mounts = {
        "/a": {"kind": "collection", "portable_data_hash": OUT},
        "/b": {"kind": "collection", "portable_data_hash": EMPTY_PDH},
    }
    second = make_step(2, mounts=mounts, output=IN, started_at="2026-01-02T03:04:07Z")
    file = CrateFile(path="workflow.json", size=1, sha256="s")
    found = _entities(first, second, files=[file], workflow=WORKFLOW)
    workflow = found["workflow.json"]
    assert "ComputationalWorkflow" in workflow["@type"]
    steps = [found[one["@id"]] for one in workflow["step"]]
    assert [one["position"] for one in steps] == ["1", "2"]
    run = found["#run"]
    assert run["instrument"] == {"@id": "workflow.json"}
    assert (run["startTime"], run["endTime"]) == ("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z")
    # What one of the steps has made is no input of the whole.
    assert "object" not in run
    assert run["result"] == [{"@id": f"#content-{IN}"}]
    organised = [found[one["@id"]] for one in found["#organize"]["object"]]
    assert [one["object"]["@id"][-1] for one in organised] == ["1", "2"]
    assert len(found["./"]["conformsTo"]) == 4


def test_a_workflow_without_output() -> None:
    lost = make_step(output=None, started_at=None, finished_at=None)
    found = _entities(lost, workflow=WORKFLOW)
    assert found["workflow.json"]["output"] == []
    assert "result" not in found["#run"]
    assert "startTime" not in found["#run"]


def test_secrets_are_named_without_their_contents() -> None:
    step = make_step()
    needed = [{"target": "/run/s", "kind": "text", "environment_variable": "PASSWORD"}]
    step = dataclasses.replace(step, request={**step.request, "secrets_needed": needed})
    found = _entities(step)
    named = [one for key, one in found.items() if "-secret-" in key]
    assert [one["value"] for one in named] == ["(a secret, which no record has)"]
