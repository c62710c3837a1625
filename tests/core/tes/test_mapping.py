"""Requests made of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.containers import constraints
from lading.core.tes.document import InvalidTask, read_task
from lading.core.tes.file_roots import make_roots
from lading.core.tes.mapping import (
    IDEMPOTENCY,
    NO_OUTPUT,
    TaskSite,
    keeps_on_failure,
    make_request,
    output_path,
    rules,
    with_contents,
    with_places,
)

RUN: Any = {"image": "alpine", "command": ["true"]}
PDH = "0" * 32 + "+1"
SITE = TaskSite()


def read(**changes: Any) -> Any:
    return read_task({"executors": [RUN], **changes})


def request(site: TaskSite = SITE, **changes: Any) -> Any:
    return make_request(read(**changes), site=site)


def test_the_smallest_task() -> None:
    assert request() == {
        "name": None,
        "description": None,
        "properties": {"tes": {"task": {"executors": [RUN]}, "warnings": []}},
        "state": "Committed",
        "priority": 500,
        "use_existing": False,
        "command": ["true"],
        "container_image": "alpine",
        "cwd": ".",
        "environment": {},
        "steps": [],
        "mounts": {NO_OUTPUT: {"kind": "tmp", "capacity": 0}},
        "output_path": NO_OUTPUT,
        "output_glob": [],
        "runtime_constraints": {"vcpus": 1, "ram": 2 * 10**9, "internet": True},
        "scheduling_parameters": {"max_run_time": 0, "partitions": [], "preemptible": False},
    }


def test_inputs_volumes_and_outputs_become_mounts() -> None:
    sent: Any = {
        "inputs": [
            {"path": "/in/a", "content": "x"},
            {"path": "/in/b/", "url": f"keep:{PDH}/d"},
            {"path": "/in/c", "url": "keep:zzzzz-4zz18-000000000000000/e"},
        ],
        "outputs": [
            {"path": "/out/a", "url": "keep:"},
            {"path": "/out/d/*", "path_prefix": "/out/d", "url": "keep:"},
        ],
        "volumes": ["/v/"],
        "resources": {"disk_gb": 0.5},
    }
    made = request(**sent)
    assert made["mounts"] == {
        "/v": {"kind": "tmp", "capacity": 5 * 10**8},
        "/out": {"kind": "tmp", "capacity": 5 * 10**8},
        "/in": {"kind": "tmp", "unless_occupied": True},
        "/in/a": {"kind": "text", "content": "x", "writable": True},
        "/in/b": {"kind": "collection", "portable_data_hash": PDH, "path": "d", "writable": True},
        "/in/c": {
            "kind": "collection",
            "uuid": "zzzzz-4zz18-000000000000000",
            "path": "e",
            "writable": True,
        },
    }
    assert made["output_glob"] == []
    stored = made["properties"]["tes"]["task"]
    assert stored["inputs"][0]["content"] == ""
    assert with_contents(stored, made["mounts"]) == read(**sent)
    assert with_contents({}, {}) == {}


def test_tasks_with_urls_wait_for_their_inputs() -> None:
    made = request(inputs=[{"path": "/in/a", "url": "https://h/a"}, {"path": "/b", "content": ""}])
    assert (made["state"], set(made["mounts"])) == ("Uncommitted", {NO_OUTPUT, "/b", "/in"})
    assert made["properties"]["tes"]["transfers"] is True
    made = request(outputs=[{"path": "/o/a", "url": "https://h/a"}])
    assert (made["state"], made["properties"]["tes"]["transfers"]) == ("Committed", True)


def test_files_below_roots() -> None:
    site = TaskSite(roots=make_roots({"/data": {}, "/results": {"Write": True}}))
    sent: Any = {
        "inputs": [{"path": "/a", "url": "/data/x"}, {"path": "/b", "url": "/etc/passwd"}],
        "outputs": [{"path": "/o/a", "url": "/results/x"}, {"path": "/o/b", "url": "/data/x"}],
    }
    found = [one.pointer for one in rules(read(**sent), site)]
    assert found == ["/inputs/1/url", "/outputs/1/url"]


def test_a_check_in_advance_has_places_for_inputs() -> None:
    task = read(inputs=[{"path": "/in/a", "url": "https://h/a"}, {"path": "/b", "content": "x"}])
    found: Any = with_places(task, make_request(task, site=SITE), site=SITE)
    assert found["mounts"]["/in/a"] == {"kind": "collection", "writable": True}
    assert found["mounts"]["/b"]["kind"] == "text"
    assert found["use_existing"] is False


def test_live_inputs_are_mounted() -> None:
    roots = make_roots({"/live": {"Live": True, "Write": True}, "/data": {"Live": True}})
    made = request(
        TaskSite(roots=roots),
        inputs=[
            {"path": "/store", "url": "file:///live/store", "type": "DIRECTORY"},
            {"path": "/d", "url": "/data/x"},
            {"path": "/text", "content": "x"},
        ],
    )
    assert made["state"] == "Committed"
    assert made["mounts"]["/store"] == {
        "kind": "live", "root": "/live", "path": "store", "writable": True,
    }  # fmt: skip
    assert made["mounts"]["/d"]["writable"] is False
    assert made["properties"]["tes"]["live"] == ["/store", "/d"]
    assert "transfers" not in made["properties"]["tes"]


def test_tags_steer_and_can_be_found() -> None:
    made = request(tags={"a b": "c", "lading.project": "zzzzz-j7d0g-000000000000000",
                         "lading.retries": "2"})  # fmt: skip
    assert made["properties"]["tes.tag.a b"] == "c"
    assert made["owner_uuid"] == "zzzzz-j7d0g-000000000000000"
    assert made["container_count_max"] == 3
    keyed: Any = make_request(read(), site=SITE, key="k")
    assert keyed["properties"][IDEMPOTENCY] == "k"


def test_zero_is_the_default() -> None:
    unset = {"cpu_cores": 0, "ram_gb": 0, "disk_gb": 0.0, "backend_parameters": {"gpu_ram_gb": "0"}}
    made = request(resources=unset, volumes=["/v"])
    limits = made["runtime_constraints"]
    assert (limits["vcpus"], limits["ram"]) == (1, 2 * 10**9)
    assert limits["gpu"]["vram"] == 0
    assert made["mounts"]["/v"]["capacity"] == 10 * 10**9
    assert made["properties"]["tes"]["task"]["resources"] == unset


def test_resources() -> None:
    backend = {
        "GPU_count": "2",
        "gpu_ram_gb": "1.5",
        "gpu_type": "8.0",
        "keep_on_failure": "60",
        "max_run_time": "90",
        "missing_outputs": "ignore",
        "network": "no",
        "partition": "long",
        "reuse": "true",
        "internal_path_prefix": "x",
    }
    made = request(
        TaskSite(preemptible=True),
        resources={"cpu_cores": 3, "preemptible": True, "backend_parameters": backend},
    )
    assert made["runtime_constraints"] == {
        "vcpus": 3,
        "ram": 2 * 10**9,
        "internet": False,
        "gpu": {
            "stack": "cuda",
            "device_count": 2,
            "driver_version": "0.0",
            "hardware_target": ["8.0"],
            "vram": 15 * 10**8,
        },
    }
    assert made["scheduling_parameters"] == {
        "max_run_time": 90,
        "partitions": ["long"],
        "preemptible": True,
        "keep_on_failure": 60,
    }
    assert made["use_existing"] is True
    assert made["properties"]["tes"]["warnings"] == []
    assert request(TaskSite(reuse=True))["use_existing"] is True


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ({"gpu_ram_gb": "1"}, {"stack": "cuda", "device_count": 1, "vram": 10**9}),
        ({"gpu_count": "2"}, {"stack": "cuda", "device_count": 2, "hardware_target": []}),
        ({"gpu_type": "Ampere, 8.9"}, {"hardware_target": ["8.9", "ampere"], "stack": "cuda"}),
        ({"gpu_type": "amd"}, {"hardware_target": [], "stack": "rocm"}),
        ({"gpu_type": "gfx90a"}, {"stack": "rocm", "hardware_target": ["gfx90a"]}),
    ],
)
def test_the_api_takes_the_gpus_of_a_task(
    backend: dict[str, str], expected: dict[str, object]
) -> None:
    made = request(resources={"backend_parameters": backend})["runtime_constraints"]
    constraints.check(constraints.fill(made), committed=True)
    assert made["gpu"] == made["gpu"] | expected


def test_a_task_without_gpus() -> None:
    for backend in ({"gpu_count": "0", "gpu_type": "8.0"}, {"gpu_type": "gfx90a,8.0"}):
        assert (
            "gpu" not in request(resources={"backend_parameters": backend})["runtime_constraints"]
        )


def test_what_has_no_effect_is_told_and_dropped() -> None:
    backend = {"odd": "1", "gpu_count": "two", "gpu_ram_gb": "much", "reuse": "perhaps",
               "network": "on?", "partition": "p"}  # fmt: skip
    made = request(resources={"backend_parameters": backend, "zones": ["z"], "preemptible": True})
    assert len(made["properties"]["tes"]["warnings"]) == 7
    stored = made["properties"]["tes"]["task"]["resources"]
    assert stored["backend_parameters"] == {"partition": "p"}
    assert made["scheduling_parameters"]["preemptible"] is False


def test_who_chooses_reuse() -> None:
    site = TaskSite(reuse=True)
    assert request(site, tags={"lading.reuse": "no"})["use_existing"] is False
    assert request(tags={"lading.reuse": "Yes"})["use_existing"] is True
    assert request(site, tags={"lading.reuse": "perhaps"})["use_existing"] is True
    backend = {"backend_parameters": {"reuse": "no"}}
    assert request(site, tags={"lading.reuse": "yes"}, resources=backend)["use_existing"] is False


def test_zones_are_partitions() -> None:
    site = TaskSite(zones={"east": "long", "west": "short"})
    made = request(site, resources={"zones": ["west", "north", "east"]})
    assert made["scheduling_parameters"]["partitions"] == ["short", "long"]
    [warning] = made["properties"]["tes"]["warnings"]
    assert "the zones north are not known here (east, west)" in warning
    chosen = {"zones": ["east"], "backend_parameters": {"partition": "own"}}
    made = request(site, resources=chosen)
    assert made["scheduling_parameters"]["partitions"] == ["own"]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"executors": [RUN] * 101}, ["/executors"]),
        ({"executors": [{**RUN, "stdin": "/a", "stderr": "/b"}]},
         ["/executors/0/stdin", "/executors/0/stderr"]),
        ({"outputs": [{"path": "/a/b", "url": "keep:"}], "volumes": ["/a/c"]}, ["/volumes/0"]),
        ({"outputs": [{"path": "/a", "url": "keep:"}]}, ["/outputs"]),
        ({"outputs": [{"path": "/a/b", "url": "keep:"}],
          "inputs": [{"path": "/a/", "content": ""}]}, ["/inputs/0/path"]),
        ({"volumes": ["/a"],
          "inputs": [{"path": "/b", "content": ""}, {"path": "/a", "content": ""}]},
         ["/inputs/1/path"]),
        ({"resources": {"backend_parameters_strict": True,
                        "backend_parameters": {"odd/x": "1", "network": "no", "reuse": "?"}}},
         ["/resources/backend_parameters/odd~1x", "/resources/backend_parameters/reuse"]),
    ],
)  # fmt: skip
def test_what_this_server_cannot_run(changes: dict[str, Any], places: list[str]) -> None:
    with pytest.raises(InvalidTask) as caught:
        read_task({"executors": [{**RUN}], **changes}, rules)
    assert [one.pointer for one in caught.value.faults] == places


def test_executors_become_steps() -> None:
    streams = {"stdin": "/in/a", "stdout": "/out/b", "stderr": "/log/c"}
    made = request(
        executors=[{**RUN, "env": {"A": "b"}}, {**RUN, **streams, "workdir": "/w/"}],
        inputs=[{"path": "/in/a", "content": ""}],
        outputs=[{"path": "/out/b", "url": "keep:"}],
    )
    assert made["environment"] == {}
    assert made["mounts"]["/log"]["kind"] == "tmp"
    assert set(made["mounts"]) == {"/log", "/out", "/in", "/in/a"}
    first, second = made["steps"]
    assert (first["environment"], first["stdin"], first["cwd"]) == ({"A": "b"}, "", ".")
    assert (second["stdout"], second["cwd"]) == ("/out/b", "/w")
    assert request(executors=[{**RUN, "ignore_error": False}])["steps"] == []
    [only] = request(executors=[{**RUN, "ignore_error": True}])["steps"]
    assert only["ignore_error"] is True


def test_where_outputs_are() -> None:
    one = {"path": "/a/b/c", "url": "keep:"}
    assert output_path(read(outputs=[one])) == "/a/b"
    other = {"path": "/a/x/*/y", "path_prefix": "/a/x/", "url": "keep:"}
    assert output_path(read(outputs=[one, other])) == "/a"


@pytest.mark.parametrize(
    ("value", "seconds", "keeps"),
    [
        ("60", 60, True),
        ("yes", None, True),
        ("no", None, False),
        ("0", None, False),
        ("x", None, False),
    ],
)
def test_outputs_after_a_failure(value: str, seconds: int | None, keeps: bool) -> None:
    resources: Any = {"backend_parameters": {"Keep_on_failure": value}}
    made = request(resources=resources)
    assert made["scheduling_parameters"].get("keep_on_failure") == seconds
    assert keeps_on_failure(read(resources=resources)) is keeps
    assert bool(made["properties"]["tes"]["warnings"]) is (value == "x")


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("lading.reuse", "maybe", "tag lading.reuse is 'maybe', not yes or no; it is ignored"),
        ("lading.retries", "x", "tag lading.retries is 'x', not a whole number; it is ignored"),
        ("lading.retries", "", "tag lading.retries is '', not a whole number; it is ignored"),
        ("lading.missing", "x", "tag lading.missing is not known; these are: "),
        ("lading.reuse", "no", ""),
        ("lading.project", "zzzzz-j7d0g-000000000000000", ""),
        ("project", "x", ""),
    ],
)
def test_tags_without_effect_are_told(name: str, value: str, warning: str) -> None:
    told = request(tags={name: value})["properties"]["tes"]["warnings"]
    expected = f"warning: {warning}"
    assert [one[: len(expected)] for one in told] == ([expected] if warning else [])
