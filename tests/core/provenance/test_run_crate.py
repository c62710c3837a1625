"""The metadata of a run crate."""

from __future__ import annotations

from typing import Any

from lading.core.provenance.run_crate import (
    CrateFile,
    CrateImage,
    CrateStep,
    contents_of,
    crate_document,
)

IN, OUT, IMAGE = (letter * 32 + "+9" for letter in "abc")
CONTAINER: dict[str, Any] = {
    "uuid": "zzzzz-dz642-000000000000000", "container_image": IMAGE, "command": ["sort", "a b"],
    "mounts": {
        "/in": {"kind": "collection", "portable_data_hash": IN, "path": "x"},
        "/out": {"kind": "tmp"},
    },
    "environment": {"Q": "1"}, "state": "Complete", "exit_code": 0, "output": OUT,
    "started_at": "2026-01-02T03:04:05Z", "finished_at": "2026-01-02T03:04:06Z",
    "runtime_status": {},
}  # fmt: skip
REQUEST: dict[str, Any] = {
    "uuid": "zzzzz-xvhdp-000000000000000", "name": "sorts", "owner_uuid": "zzzzz-tpzed-1",
    "modified_by_user_uuid": "zzzzz-tpzed-2",
}  # fmt: skip


def _step(agent: str = "", **container: Any) -> CrateStep:
    return CrateStep(request=REQUEST, container={**CONTAINER, **container}, agent=agent)


def _entities(*steps: CrateStep, **more: Any) -> dict[str, dict[str, Any]]:
    given: dict[str, Any] = {"files": (), "images": {}, **more}
    document = crate_document(
        steps, name="n", published="2026-01-02", version="1", license_text="l", **given
    )
    entities = {one["@id"]: one for one in document["@graph"]}
    assert len(entities) == len(document["@graph"])
    return entities


def test_what_a_container_read_and_made() -> None:
    found = _entities(_step("Ann"), images={IMAGE: CrateImage(names=("t:1",), sha256="d")})
    assert found["./"]["mentions"] == [{"@id": f"#{CONTAINER['uuid']}"}]
    action = found[f"#{CONTAINER['uuid']}"]
    assert action["description"] == "sort 'a b'"
    assert action["actionStatus"] == {"@id": "http://schema.org/CompletedActionStatus"}
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
    failed = _entities(_step(exit_code=3, output=None, command=[], environment=None))
    action = failed[f"#{CONTAINER['uuid']}"]
    assert (action["error"], "result" in action) == ("exit code 3", False)
    assert action["agent"] == {"@id": "#zzzzz-tpzed-2"}
    assert "sha256" not in failed[f"#image-{IMAGE}"]
    lost = _step(state="Cancelled", exit_code=None, runtime_status={"error": "no disk"})
    assert _entities(lost)[f"#{CONTAINER['uuid']}"]["error"] == "no disk"


def test_one_action_for_a_container_that_two_requests_share() -> None:
    assert len(_entities(_step(), _step())["./"]["mentions"]) == 1


def test_files_and_data_that_are_in_the_crate() -> None:
    paths = [f"data/{OUT}/d/y", f"manifests/{OUT}.txt", f"data/{OUT}/x", "records/r.json"]
    files = [CrateFile(path=path, size=3, sha256="s") for path in paths]
    found = _entities(_step(), files=files)
    dataset = found[f"data/{OUT}/"]
    assert [one["@id"] for one in dataset["hasPart"]] == [f"data/{OUT}/d/y", f"data/{OUT}/x"]
    assert {"@id": f"data/{OUT}/"} in found["./"]["hasPart"]
    assert {one["@id"] for one in found["./"]["hasPart"]} >= set(paths)
    assert found["records/r.json"]["contentSize"] == "3"
    assert f"#content-{IN}" in found


def test_contents() -> None:
    assert contents_of([_step(), _step(output=None)]) == ({IN, OUT}, {IMAGE})
    assert contents_of([_step(mounts=None, output=None)]) == (set(), {IMAGE})
