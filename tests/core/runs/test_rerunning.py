"""Steps of a run that are submitted again."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid, NotFound
from lading.core.ids import EMPTY_PDH
from lading.core.runs.rerunning import command_with, plan_rerun, renew, replace_inputs
from lading.core.runs.step_groups import RunStep, read_step

T1 = "2026-01-02T03:04:05.000000000Z"


def step(uuid: str, **more: Any) -> RunStep:
    usual = {"name": uuid, "state": "done", "is_reused": False, "created_at": T1}
    return read_step({"uuid": uuid, **usual, **more})


def request(uuid: str, *needs: str, **mounts: Any) -> dict[str, Any]:
    return {"uuid": uuid, "depends_on": list(needs), "mounts": mounts}


def test_all_steps_run_again_in_the_order_of_the_data() -> None:
    plan = plan_rerun([step("b", depends_on=["a"]), step("a"), step("d", state="draft")])
    assert [each.uuid for each in plan.steps] == ["a", "b"]
    assert plan.again == {"a", "b"}


def test_a_step_runs_again_with_all_that_need_it() -> None:
    steps = [
        step("a", output="1"),
        step("b", inputs=["1"], output="2"),
        step("c", depends_on=["b"]),
        step("x", inputs=["1"]),
    ]
    assert plan_rerun(steps, ["b"]).again == {"b", "c"}
    assert plan_rerun(steps, ["x", "c"]).again == {"x", "c"}
    with pytest.raises(NotFound, match="nosuch: the run has no such step; it has a, b, x, c"):
        plan_rerun(steps, ["nosuch"])
    with pytest.raises(Invalid, match="no step that could run again"):
        plan_rerun([])


def test_of_several_tries_the_last_one_counts() -> None:
    plan = plan_rerun(
        [
            step("a1", name="a", state="failed"),
            step("b", depends_on=["a1"]),
            step("a2", name="a"),
            step("a3", name="a"),
        ]
    )
    assert {each.uuid for each in plan.steps} == {"b", "a2", "a3"}
    assert plan.position["a3"] < plan.position["b"]
    mounts = {"/in": {"kind": "output", "container_request": "a1", "path": "p"}}
    renewed = renew(request("b", "a1", "z", **mounts), plan)
    assert renewed["depends_on"] == ["a3", "z"]
    assert renewed["mounts"]["/in"] == {"kind": "output", "container_request": "a3", "path": "p"}


@pytest.mark.parametrize(
    ("mount", "renewed"),
    [
        ({"portable_data_hash": "1"}, {}),
        ({"portable_data_hash": "1/x/", "path": "y"}, {"path": "x/y"}),
        ({"uuid": "u", "exclude_from_output": True}, {"exclude_from_output": True}),
        ({"portable_data_hash": "1", "writable": True}, None),
        ({"portable_data_hash": EMPTY_PDH}, None),
        ({"portable_data_hash": "later"}, None),
        ({"portable_data_hash": "failed"}, None),
    ],
)
def test_content_of_a_step_is_read_of_the_new_one(
    mount: dict[str, Any], renewed: dict[str, Any] | None
) -> None:
    plan = plan_rerun(
        [
            step("a", output="1", output_uuid="u"),
            step("e", output=EMPTY_PDH),
            step("f", output="failed", state="failed"),
            step("b", inputs=["1"]),
            step("c", output="later", depends_on=["b"]),
        ]
    )
    mount = {"kind": "collection", **mount}
    expected = mount if renewed is None else {"kind": "output", "container_request": "a", **renewed}
    assert renew(request("b", **{"/in": mount}), plan)["mounts"] == {"/in": expected}


def test_content_of_a_step_that_is_reused_stays() -> None:
    plan = plan_rerun([step("a", output="1"), step("b", inputs=["1"])], ["b"])
    mounts = {"/in": {"kind": "collection", "portable_data_hash": "1"}, "/tmp": {"kind": "tmp"}}
    assert renew(request("b", **mounts), plan)["mounts"] == mounts


def test_inputs_of_a_workflow() -> None:
    target = "/var/lib/cwl/cwl.input.json"
    runner = request("r", **{target: {"kind": "json", "content": {"k": 1, "reads": "a"}}})
    changed = replace_inputs(runner, {"k": 2})["mounts"][target]
    assert changed == {"kind": "json", "content": {"k": 2, "reads": "a"}}
    with pytest.raises(Invalid, match="--set j: the workflow has no such input; it has k, reads"):
        replace_inputs(runner, {"j": 2})
    with pytest.raises(Invalid, match="has its inputs in no mount"):
        replace_inputs(request("r", **{target: {"kind": "json", "content": [1]}}), {"k": 2})


def test_the_command_of_a_program_with_other_parameters() -> None:
    values = {"k": 31, "reads": "a b"}
    script = command_with({"name": "c 7", "source": {"script": "p.sh"}}, values)
    assert script == (
        """eval "$(lading runs begin 'c 7' --param k=31 --param 'reads=a b')", then p.sh"""
    )
    assert command_with({"name": "c", "source": {}}, {"k": 1}).endswith(", then its program")
    snakemake = command_with({"name": "c", "source": {"script": "snakemake"}}, values)
    assert snakemake == "LADING_RUN=c snakemake --config k=31 'reads=a b'"
