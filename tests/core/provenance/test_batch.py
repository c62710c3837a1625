"""The steps of a crate as a batch, and the workflow of a runner."""

from __future__ import annotations

from lading.core.provenance.batch import BatchSteps, cwl_of
from tests.core.provenance.test_run_crate import IN, OUT, make_step

SCHEDULING = {"max_run_time": 5, "disk_factor": 2.0, "expected_run_time": 7}


def test_inputs_from_earlier_steps_are_their_outputs() -> None:
    steps = BatchSteps()
    first = steps.step(make_step(1))
    assert first["mounts"]["/in"]["portable_data_hash"] == IN
    mounts = {
        "/a": {"kind": "collection", "portable_data_hash": OUT, "path": "x"},
        "/b": {"kind": "collection", "portable_data_hash": OUT},
        "/c": {"kind": "tmp"},
    }
    second = steps.step(make_step(2, mounts=mounts, output=None, output_path="/c", cwd="/"))
    assert second["mounts"]["/a"] == {
        "kind": "output", "container_request": "#0", "path": "x",
    }  # fmt: skip
    assert second["mounts"]["/b"] == {"kind": "output", "container_request": "#0"}
    assert second["mounts"]["/c"] == {"kind": "tmp"}


def test_the_workflow_of_a_runner() -> None:
    mounts = {
        "/var/lib/cwl/workflow.json": {"kind": "json", "content": {"cwlVersion": "v1.2"}},
        "/var/lib/cwl/cwl.input.json": {"kind": "json", "content": {"x": 1}},
    }
    assert cwl_of({"mounts": mounts}) == ({"cwlVersion": "v1.2"}, {"x": 1})
    assert cwl_of({"mounts": None}) is None


def test_what_only_the_server_gives_is_not_asked_for() -> None:
    more = make_step(1, scheduling_parameters=SCHEDULING)
    assert BatchSteps().step(more)["scheduling_parameters"] == {"max_run_time": 5}
