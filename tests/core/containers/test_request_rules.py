"""What the attributes of a request must be."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers import constraints, request_rules
from lading.core.containers.attempts import spot
from lading.core.containers.request_phases import PHASES
from lading.core.containers.steps import check_steps
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject
from tests.records import POLICY, make_request


def refusal(*, fully: bool = True, committing: bool = True, **changes: Any) -> str:
    record: JsonObject = {**make_request().to_record(), "state": "Committed", **changes}
    with pytest.raises(Invalid) as refused:
        request_rules.validate(record, fully=fully, committing=committing, policy=POLICY)
    return refused.value.message


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_complete_request_is_valid(nodes: int) -> None:
    record: JsonObject = {**make_request().to_record(), "state": "Committed"}
    scheduling: JsonObject = {**record["scheduling_parameters"], "nodes": nodes}  # type: ignore[dict-item]
    record["scheduling_parameters"] = scheduling
    request_rules.validate(record, fully=True, committing=True, policy=POLICY)


@pytest.mark.parametrize("name", ["command", "container_image", "output_path"])
@pytest.mark.parametrize("blank", [None, "", " ", []])
def test_required_attributes(name: str, blank: Any) -> None:
    changes: dict[str, Any] = {name: blank}
    if (name, blank) == ("command", None):
        request_rules.validate(
            {**make_request().to_record(), **changes}, fully=True, committing=False, policy=POLICY
        )
        return
    assert refusal(fully=False, **changes).endswith("can't be blank")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"command": None, "scheduling_parameters": {"nodes": 2}},
            "Command can't be blank where several nodes",
        ),
        (
            {"output_path": "/out/x", "scheduling_parameters": {"nodes": 2}},
            "Output path must be a mount target where",
        ),
        ({"service": True}, "Use existing cannot be true if 'service' is true"),
        ({"max_parallel": 2}, "Max parallel needs a parallel_group: the requests that take turns"),
        ({"priority": None}, "Priority cannot be nil"),
        ({"command": ["a\0b"]}, "Command cannot contain NUL"),
        ({"environment": {"A": 1}}, "Environment [A]: incompatible value type"),
        ({"mounts": {}}, "Output path must be a mount target"),
        (
            {"output_storage_classes": ["a, b"]},
            "Output storage classes: 'a, b' is no name of a storage class",
        ),
    ],
)
def test_faults_are_named(changes: dict[str, Any], fault: str) -> None:
    assert fault in refusal(**changes)


def test_no_attribute_has_a_nul() -> None:
    with pytest.raises(Invalid, match="cannot contain NUL"):
        request_rules.stored("properties", {"k": ["a\0b"]}, default={}, policy=POLICY)


def test_steps_are_checked() -> None:
    step: JsonObject = {"container_image": "a", "command": ["x"]}
    said = refusal(steps=check_steps("steps", [step]), command=["another"])
    assert "steps" in said.lower()


def test_a_deadline_counts_from_the_commit() -> None:
    filled = constraints.fill_scheduling({"preemptible": "prefer", "deadline": 5})
    record: JsonObject = {
        **make_request().to_record(),
        "scheduling_parameters": filled,
        "requesting_container_uuid": None,
    }
    now = "2026-01-31T12:00:00.000000000Z"
    committed = request_rules.committed_scheduling(record, POLICY, now=now)
    assert committed == spot.committed(filled, now=now)
    assert committed["deadline"] != 5


def test_resources_and_scheduling_are_checked() -> None:
    record = make_request().to_record()
    nothing: JsonObject = {**record["runtime_constraints"], "ram": 0}  # type: ignore[dict-item]
    assert "[ram]=0" in refusal(runtime_constraints=nothing)
    preemptible: JsonObject = {**record["scheduling_parameters"], "preemptible": True}  # type: ignore[dict-item]
    assert "preemptible instances" in refusal(scheduling_parameters=preemptible)


@pytest.mark.parametrize(
    ("name", "sent", "stored"),
    [
        ("priority", "0", 0),
        ("priority", None, None),
        ("output_name", "", None),
        ("use_existing", None, "default"),
        ("output_storage_classes", [], ["default"]),
        ("container_count", 4, 4),
    ],
)
def test_what_is_stored(name: str, sent: Json, stored: Json) -> None:
    default = True if name == "use_existing" else 0
    found = request_rules.stored(name, sent, default=default, policy=POLICY)
    assert found == (default if stored == "default" else stored)


@pytest.mark.parametrize("name", ["runtime_constraints", "scheduling_parameters"])
def test_nested_defaults_are_stored(name: str) -> None:
    assert len(str(request_rules.stored(name, None, default={}, policy=POLICY))) > 60
    with pytest.raises(Invalid, match="must be an object"):
        request_rules.stored(name, [], default={}, policy=POLICY)


PORT: JsonObject = {"access": "private", "label": "notebook", "initial_path": "/"}


def test_output_globs_are_limited() -> None:
    assert request_rules.stored("output_glob", ["a", "**"], default=[], policy=POLICY) == [
        "a",
        "**",
    ]
    assert request_rules.stored("output_glob", None, default=[], policy=POLICY) == []
    with pytest.raises(Invalid, match="Output glob has 1001 patterns, and 1000 are allowed"):
        request_rules.stored("output_glob", ["a"] * 1001, default=[], policy=POLICY)


def test_published_ports() -> None:
    given: JsonObject = {"80": PORT, "65535": {**PORT, "access": "public", "initial_path": ""}}
    assert request_rules.stored("published_ports", given, default={}, policy=POLICY) == given
    assert request_rules.stored("published_ports", None, default={}, policy=POLICY) == {}


@pytest.mark.parametrize(
    ("port", "changes", "word"),
    [
        ("0", {}, "not a port"), ("65536", {}, "not a port"), ("x", {}, "not a port"),
        ("080", {}, "not a port"), ("80", {"access": "all"}, "private"),
        ("80", {"label": ""}, "label"), ("80", {"label": 1}, "label"),
        ("80", {"initial_path": None}, "initial_path"), ("80", {"base_url": "x"}, "nothing else"),
    ],
)  # fmt: skip
def test_ports_that_cannot_be_published(port: str, changes: dict[str, Any], word: str) -> None:
    with pytest.raises(Invalid, match=word):
        request_rules.stored(
            "published_ports", {port: {**PORT, **changes}}, default={}, policy=POLICY
        )
    with pytest.raises(Invalid, match="nothing else"):
        request_rules.stored("published_ports", {"80": "x"}, default={}, policy=POLICY)


def test_the_workflow_runner_supervises() -> None:
    assert request_rules.with_runner_rule({}, ["arvados-cwl-runner", "x"]) == {"supervisor": True}
    assert request_rules.with_runner_rule({}, ["echo"]) == {}
    assert request_rules.with_runner_rule({}, None) == {}


def test_a_request_waits_for_the_requests_whose_outputs_it_mounts() -> None:
    one, two = (f"zzzzz-xvhdp-{number:015}" for number in (1, 2))
    mounts: JsonObject = {
        f"/in/{number}": {"kind": "output", "container_request": uuid}
        for number, uuid in enumerate((one, two, two))
    }
    assert request_rules.with_sources([one], mounts) == {"depends_on": [one, two]}
    assert request_rules.with_sources([two, one], mounts) == {}
    assert request_rules.with_sources([], {"/in": {"kind": "tmp"}}) == {}
    most = [f"zzzzz-xvhdp-{number:015}" for number in range(request_rules.MAX_DEPENDENCIES)]
    with pytest.raises(Invalid, match="more than 1000 requests, outputs in mounts included"):
        request_rules.with_sources(
            most,
            {**mounts, "/more": mounts["/in/1"]}
            | {"/last": {"kind": "output", "container_request": f"zzzzz-xvhdp-{9999:015}"}},
        )


def test_every_attribute_that_can_be_written_is_checked() -> None:
    assert {name for name, states in PHASES.items() if states} <= set(request_rules.CHECKS)


def test_dependencies_are_uuids_of_requests_each_once() -> None:
    one = "zzzzz-xvhdp-000000000000001"
    assert request_rules.stored("depends_on", [one, one], default=[], policy=POLICY) == [one]
    faults: list[tuple[Json, str]] = [
        (["x"], "'x' is not the uuid of a container request"),
        (5, "an array of strings"),
    ]
    for value, fault in faults:
        with pytest.raises(Invalid, match=fault):
            request_rules.stored("depends_on", value, default=[], policy=POLICY)
    many: list[Json] = [f"zzzzz-xvhdp-{number:015d}" for number in range(1001)]
    with pytest.raises(Invalid, match="more than 1000 requests"):
        request_rules.stored("depends_on", many, default=[], policy=POLICY)


def test_one_condition_alone_is_a_list_of_one() -> None:
    alone: list[Json] = ["created_at", "<", "2015-07-01T00:00:01Z"]
    assert request_rules.stored("filters", alone, default=None, policy=POLICY) == [alone]
    assert request_rules.stored("filters", [[*alone]], default=None, policy=POLICY) == [alone]
    assert request_rules.stored("filters", None, default=None, policy=POLICY) is None
    with pytest.raises(Invalid, match="Filters: "):
        request_rules.stored("filters", [["nope", "=", 1]], default=None, policy=POLICY)
