"""Tasks as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.tes.listing import TaskView
from lading.core.tes.outputs import OutputFile, TaskOutputs
from lading.core.tes.states import TaskState
from lading.core.tes.views import (
    MAX_TEXT,
    TaskAttempt,
    describe_request,
    document_of,
    has_begun,
    has_transfers,
    show_task,
    text_end,
    warnings_of,
    why_not_reused,
)

TASK: Any = {
    "name": "n",
    "executors": [{"image": "a", "command": ["b"]}],
    "inputs": [{"path": "/a", "content": "", "type": "FILE"}],
}
REQUEST: Any = {
    "uuid": "zzzzz-xvhdp-000000000000000",
    "created_at": "2026-01-02T03:04:05.000006000Z",
    "properties": {"tes": {"task": TASK, "warnings": ["warning: w"]}},
    "mounts": {"/a": {"kind": "text", "content": "x"}},
}


def container(**changes: Any) -> Any:
    return {
        "uuid": "zzzzz-dz642-000000000000000",
        "state": "Complete",
        "exit_code": 0,
        "runtime_status": None,
        "started_at": "2026-01-02T03:04:06.000006000Z",
        "finished_at": "2026-01-02T03:04:07.000006000Z",
        "log": None,
        "cost": 0.0,
        **changes,
    }


def show(view: TaskView, *attempts: TaskAttempt) -> Any:
    return show_task(REQUEST, TaskState.COMPLETE, view=view, attempts=attempts)


@pytest.mark.parametrize(
    ("error", "logs"),
    [
        ("the command cannot be started: x: No such file; is it there?", [127]),
        ("the command cannot be started: /etc: Permission denied", [126]),
        ("output: a socket", []),
    ],
)
def test_a_command_that_cannot_be_started_is_an_executor(error: str, logs: list[int]) -> None:
    status = {"failure": "user", "error": error}
    refused = container(state="Cancelled", exit_code=None, runtime_status=status)
    shown = show(TaskView.FULL, TaskAttempt(container=refused, number=1, streams=(("", "a\n"),)))
    executors = shown["logs"][0]["logs"]
    assert [one["exit_code"] for one in executors] == logs
    assert [one["stderr"] for one in executors] == [f"a\n{error}\n"] * len(logs)


@pytest.mark.parametrize("stamp", [b"", b"05.123456789Z "])
def test_a_long_line_is_shown_to_its_end(stamp: bytes) -> None:
    bar = b"\r1 of 9" * 10_000
    text = text_end(stamp + bar + b"\nfatal\n", 1 << 20, "w")
    assert text.startswith("[")
    assert text.endswith("of 9\nfatal\n")
    one_line = text_end(stamp + b"x\n", 50, "w")
    assert one_line == f"[{50 - 2} bytes of the log left out; w]\nx\n"


def test_views() -> None:
    assert show(TaskView.MINIMAL) == {"id": REQUEST["uuid"], "state": "COMPLETE"}
    basic = show(TaskView.BASIC)
    assert basic["inputs"] == [{"path": "/a", "type": "FILE"}]
    assert "logs" not in basic
    assert show(TaskView.FULL)["inputs"] == [{"path": "/a", "content": "x", "type": "FILE"}]
    executors = [{"image": "i", "command": ["c"]}]
    plain = {**REQUEST, "properties": {"tes": {"task": {"executors": executors}, "warnings": []}}}
    assert show_task(plain, TaskState.QUEUED, view=TaskView.BASIC) == {
        "id": REQUEST["uuid"],
        "state": "QUEUED",
        "executors": executors,
        "creation_time": REQUEST["created_at"],
    }
    assert document_of(REQUEST) == TASK
    assert warnings_of(REQUEST) == ("warning: w",)


def test_logs_of_an_attempt() -> None:
    outputs = TaskOutputs((OutputFile("/o/f", "f", 3),), ("/o/g",), ("/o/*",))
    attempt = TaskAttempt(
        container=container(cost=0.5, log="l", runtime_status={"warning": "slow"}),
        number=2,
        outputs=outputs,
        output="PDH",
        streams=(("out", "err"),),
        notes=("note",),
    )
    [log] = show(TaskView.FULL, attempt)["logs"]
    assert log["logs"][0]["stdout"] == "out"
    assert log["outputs"] == [{"url": "keep:PDH/f", "path": "/o/f", "size_bytes": "3"}]
    assert log["metadata"] == {
        "container_uuid": "zzzzz-dz642-000000000000000",
        "attempt": "2",
        "output": "PDH",
        "log": "l",
        "cost": "0.5",
    }
    assert log["system_logs"] == [
        "missing outputs: /o/g",
        "warning: no file matches the output /o/*",
        "warning: slow",
        "note",
    ]
    [log] = show(TaskView.BASIC, attempt)["logs"]
    assert "stdout" not in log["logs"][0]
    assert "system_logs" not in log


def test_delivered_files() -> None:
    files = (
        OutputFile("/o/a", "a", 1, "s3://b/a"),
        OutputFile("/o/b", "b", 2, "s3://b/b"),
        OutputFile("/o/c", "c", 3),
    )
    attempt = TaskAttempt(
        container=container(),
        number=1,
        outputs=TaskOutputs(files),
        output="PDH",
        is_reused=True,
        checksums={"s3://b/a": "sha256:0", "s3://b/x": ""},
    )
    [log] = show(TaskView.BASIC, attempt)["logs"]
    assert [one["url"] for one in log["outputs"]] == ["s3://b/a", "keep:PDH/c"]
    assert log["metadata"]["checksums"] == '{"s3://b/a":"sha256:0"}'
    assert log["metadata"]["reused"] == log["metadata"]["container_uuid"]


def test_tasks_before_their_first_attempt() -> None:
    waiting = show_task(REQUEST, TaskState.QUEUED, view=TaskView.FULL, notes=["fetching"])
    assert waiting["logs"] == [{"logs": [], "outputs": [], "system_logs": ["fetching"]}]
    waiting = show_task(REQUEST, TaskState.QUEUED, view=TaskView.BASIC, notes=["fetching"])
    assert waiting["logs"] == [{"logs": [], "outputs": []}]
    assert not has_transfers(REQUEST)
    assert has_transfers({"properties": {"tes": {"transfers": True}}})


def test_attempts_that_did_not_end_well() -> None:
    waiting = container(state="Queued", exit_code=None, started_at=None, finished_at=None)
    assert not has_begun(waiting)
    [log] = show(TaskView.FULL, TaskAttempt(container=waiting, number=1))["logs"]
    assert log == {
        "logs": [],
        "outputs": [],
        "metadata": {"container_uuid": waiting["uuid"], "attempt": "1"},
    }
    for status, first in (
        ({"error": "no image", "failure": "image"}, "image: no image"),
        ({"error": "gone"}, "error: gone"),
    ):
        lost = container(state="Cancelled", exit_code=None, runtime_status=status)
        [log] = show(TaskView.FULL, TaskAttempt(container=lost, number=1))["logs"]
        assert log["system_logs"] == [first]
        assert log["logs"] == []
    killed = container(exit_code=137, runtime_status={"failure": "oom"})
    [log] = show(TaskView.FULL, TaskAttempt(container=killed, number=1))["logs"]
    assert log["system_logs"][0].startswith("oom: ")


def test_executors_that_have_ended() -> None:
    times = {"started_at": "a", "finished_at": "b"}
    steps = [{**times, "exit_code": 1, "stdout": [0, 5]}, {**times, "exit_code": 0}]
    running = container(state="Running", exit_code=None, runtime_status={"steps": steps})
    attempt = TaskAttempt(container=running, number=1, streams=(("o", "e"),))
    [log] = show(TaskView.FULL, attempt)["logs"]
    assert [(one["exit_code"], one["stdout"]) for one in log["logs"]] == [(1, "o"), (0, "")]


def test_the_end_of_a_stream() -> None:
    stamp = b"2026-01-02T03:04:05.000006000Z "
    assert text_end(stamp + b"a\n" + stamp + b"\xff\n", 66, "w") == "a\n\N{REPLACEMENT CHARACTER}\n"
    # The first line is cut: it is left out.
    assert (
        text_end(b"05Z a\n" + stamp + b"b\n", 100, "w") == "[67 bytes of the log left out; w]\nb\n"
    )
    long = text_end(b"x" * (MAX_TEXT + 1), MAX_TEXT + 1, "w")
    assert long == "[1 bytes of the log left out; w]\n" + "x" * MAX_TEXT


def test_a_request_that_was_not_made_by_tes() -> None:
    request = {
        "name": "",
        "command": ["cat"],
        "container_image": "a:1",
        "cwd": ".",
        "environment": {},
        "runtime_constraints": {"vcpus": 2, "ram": 1_500_000_000},
    }
    task = describe_request(request)
    assert task == {
        "executors": [{"image": "a:1", "command": ["cat"]}],
        "resources": {"cpu_cores": 2, "ram_gb": 1.5},
    }
    more = {"name": "n", "cwd": "/work", "environment": {"A": "b"}}
    named: Any = describe_request({**request, **more})
    assert (named["name"], named["executors"][0]["workdir"]) == ("n", "/work")
    assert named["executors"][0]["env"] == {"A": "b"}


def test_why_a_task_is_not_reused() -> None:
    live: Any = {**REQUEST, "properties": {"tes": {"task": TASK, "warnings": [], "live": ["/w"]}}}
    assert why_not_reused(REQUEST) == ""
    reason = why_not_reused(live)
    assert reason == "/w: live, so that the content may have changed"
    shown = show(TaskView.BASIC, TaskAttempt(container=container(), number=1, not_reused=reason))
    assert shown["logs"][0]["metadata"]["not_reused"] == reason


def test_a_reason_to_wait_is_said_once() -> None:
    waits = container(runtime_status={"warning": "too large"})
    attempt = TaskAttempt(container=waits, number=1, notes=("too large",))
    assert show(TaskView.FULL, attempt)["logs"][0]["system_logs"] == ["too large"]


def test_overwritten_properties_and_status_are_shown_as_nothing() -> None:
    spoiled = {**REQUEST, "properties": {"tes": {"task": {"executors": 7}}}}
    assert document_of(spoiled) == {"executors": []}
    running = container(state="Running", exit_code=None, runtime_status={"steps": ["x", 7]})
    [log] = show(TaskView.FULL, TaskAttempt(container=running, number=1))["logs"]
    assert log["logs"] == []


def test_outputs_beyond_a_limit_are_told() -> None:
    attempt = TaskAttempt(container=container(), number=1, outputs=TaskOutputs(excess="too many"))
    [log] = show(TaskView.FULL, attempt)["logs"]
    assert "warning: too many" in log["system_logs"]
