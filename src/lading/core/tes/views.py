"""Tasks as clients see them: the three views, and the logs of attempts.

A field that a view excludes is absent, not empty; a field that the client did not send is absent
too. Sizes of files are texts of decimal digits.

Source: GA4GH Task Execution Service 1.1.0, tesTask, tesTaskLog, tesExecutorLog; docs/tes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lading.core.containers.container import ContainerState, start_refusal
from lading.core.containers.steps import STATUS
from lading.core.errors import Failure
from lading.core.tes.backend_parameters import GB
from lading.core.tes.document import InvalidTask, read_task
from lading.core.tes.document_shapes import array
from lading.core.tes.listing import TaskView
from lading.core.tes.mapping import LIVE, PROPERTY, TRANSFERS, with_contents
from lading.core.tes.outputs import TaskOutputs
from lading.core.tes.states import TaskState, failure
from lading.core.values import Json, JsonObject, canonical

MAX_TEXT = 64 << 10
"""Bytes of stdout or stderr in an executor's log: the last ones."""
DESCRIBED = ("name", "command", "container_image", "cwd", "environment", "runtime_constraints")
"""Fields of a request that `describe_request` reads."""
# Bytes of a line that is cut at the beginning of a stream, of which nothing is shown.
_LONG_LINE = 4096
# Delivered files whose checksums are shown.
_MOST_CHECKSUMS = 100
# The timestamp before each line of a log, which TES' `stdout` and `stderr` do not have.
_STAMP = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ", re.MULTILINE)
_CUT_STAMP = re.compile(rb"[\d:.T-]{0,29}Z ")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """A container of a task with what its log needs. `streams` are the ends of stdout and stderr of
    each executor that has ended, `output` the portable data hash of the output collection,
    `notes` sentences for the system log, `is_reused` whether it was run for an earlier request,
    `not_reused` why no earlier
    result could be taken, `checksums` those of delivered files by their URLs; files to deliver that
    have none are not shown as outputs.
    """

    container: Mapping[str, Any]
    number: int
    outputs: TaskOutputs = TaskOutputs()
    output: str = ""
    streams: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    is_reused: bool = False
    not_reused: str = ""
    checksums: Mapping[str, str] = field(default_factory=dict)


def show_task(
    request: Mapping[str, Any],
    state: TaskState,
    *,
    view: TaskView,
    attempts: Sequence[TaskAttempt] = (),
    notes: Sequence[str] = (),
) -> JsonObject:
    """A task in a view. `request` has uuid, properties, created_at, and mounts for FULL. `notes`
    are sentences for the system log of a task without attempts.
    """
    if view is TaskView.MINIMAL:
        return {"id": request["uuid"], "state": state}
    task: JsonObject = document_of(request)
    if view is TaskView.FULL:
        task = with_contents(task, request["mounts"])
    elif "inputs" in task:
        task = {
            **task,
            "inputs": [_without(task_input, "content") for task_input in _list(task["inputs"])],
        }
    shown: JsonObject = {
        "id": request["uuid"],
        "state": state,
        **task,
        "creation_time": request["created_at"],
    }
    if attempts:
        shown["logs"] = [_task_log(attempt, full=view is TaskView.FULL) for attempt in attempts]
    elif notes:
        told: JsonObject = {"system_logs": [*notes]} if view is TaskView.FULL else {}
        shown["logs"] = [{"logs": [], "outputs": [], **told}]
    return shown


def document_of(request: Mapping[str, Any]) -> JsonObject:
    """The document that a request was made of, without the contents of its inputs.

    A writer of the request may overwrite it: a request whose document is damaged shows none.
    """
    try:
        return read_task(_stored(request).get("task"))
    except InvalidTask:
        return {"executors": []}


def describe_request(request: Mapping[str, Any]) -> JsonObject:
    """The document that says of a request what it runs; `request` has the fields DESCRIBED."""
    constraints = request["runtime_constraints"]
    command = request["command"] or ()
    executor: JsonObject = {"image": request["container_image"] or "", "command": [*command]}
    if request["cwd"] not in ("", "."):
        executor["workdir"] = request["cwd"]
    if request["environment"]:
        executor["env"] = {**request["environment"]}
    task: JsonObject = {
        "executors": [executor],
        "resources": _resources(constraints),
    }
    return {"name": request["name"], **task} if request["name"] else task


def _resources(constraints: Mapping[str, Any]) -> JsonObject:
    """The tags of a request; its draft may lack them."""
    cores, ram = constraints.get("vcpus"), constraints.get("ram")
    found: JsonObject = {"cpu_cores": cores} if isinstance(cores, int) else {}
    return found | ({"ram_gb": ram / GB} if isinstance(ram, int) else {})


def has_transfers(request: Mapping[str, Any]) -> bool:
    """Whether a task has inputs or outputs by URL, whose transfer is stored."""
    return bool(_stored(request).get(TRANSFERS))


def why_not_reused(request: Mapping[str, Any]) -> str:
    """The reason why a task is always run anew, or ""."""
    live = _texts(_stored(request), LIVE)
    return f"{', '.join(live)}: live, so that the content may have changed" if live else ""


def warnings_of(request: Mapping[str, Any]) -> tuple[str, ...]:
    """The warnings of the creation of a task."""
    return _texts(_stored(request), "warnings")


def _stored(request: Mapping[str, Any]) -> JsonObject:
    """The property of a task, whose values may be of any type."""
    found = request["properties"].get(PROPERTY)
    return found if isinstance(found, dict) else {}


def _texts(about: JsonObject, name: str) -> tuple[str, ...]:
    return tuple(item for item in array(about, name) if isinstance(item, str))


def _without(value: Json, name: str) -> Json:
    return (
        {key: member for key, member in value.items() if key != name}
        if isinstance(value, dict)
        else value
    )


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def has_begun(container: Mapping[str, Any]) -> bool:
    """Whether the command of a container has been started."""
    return bool(container["started_at"])


def _task_log(attempt: TaskAttempt, *, full: bool) -> JsonObject:
    container = attempt.container
    log: JsonObject = {"logs": _executor_logs(attempt, full=full)}
    if has_begun(container):
        log["start_time"] = container["started_at"]
    if container["finished_at"]:
        log["end_time"] = container["finished_at"]
    log["metadata"] = _metadata(attempt)
    log["outputs"] = [
        {
            "url": file.url or f"keep:{attempt.output}/{file.stored}",
            "path": file.path,
            "size_bytes": str(file.size),
        }
        for file in attempt.outputs.files
        if not file.url or file.url in attempt.checksums
    ]
    if full and (notes := _system_logs(attempt)):
        log["system_logs"] = [*notes]
    return log


def _executor_logs(attempt: TaskAttempt, *, full: bool) -> list[Json]:
    logs: list[Json] = []
    for number, step in enumerate(ended_steps(attempt.container)):
        log: JsonObject = {
            "start_time": step["started_at"],
            "end_time": step["finished_at"],
            "exit_code": step["exit_code"],
        }
        if full:
            out, err = attempt.streams[number] if number < len(attempt.streams) else ("", "")
            if refusal := start_refusal(attempt.container):
                err += f"{refusal.reason}\n"
            log |= {"stdout": out, "stderr": err}
        logs.append(log)
    return logs


def ended_steps(container: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The executors of a container that have ended, each with started_at, finished_at, exit_code,
    and, when there are several, the places of its output in the log, `stdout` and `stderr`.
    """
    steps = (container["runtime_status"] or {}).get(STATUS)
    if isinstance(steps, list):
        # A container with API may write its status itself.
        return [step for step in steps if _is_ended(step)]
    if refusal := start_refusal(container):
        # As a shell tells it, and as one of several executors ends.
        return [{**container, "exit_code": refusal.exit_code}]
    if container["exit_code"] is None or container["state"] != ContainerState.COMPLETE:
        # An exit code is required.
        return []
    return [container]


def _is_ended(step: Json) -> bool:
    """Whether an entry of a container's status is an executor that has ended."""
    if not isinstance(step, dict):
        return False
    times = (step.get("started_at"), step.get("finished_at"))
    return (
        all(isinstance(time, str | None) for time in times)
        and isinstance(step.get("exit_code"), int)
        and "started_at" in step
        and "finished_at" in step
        and all(_is_span(step.get(name)) for name in ("stdout", "stderr"))
    )


def _is_span(value: Json) -> bool:
    """Whether a value is the place of a stream in a log, or none."""
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(bound, int) and bound >= 0 for bound in value)
    )


def _metadata(attempt: TaskAttempt) -> JsonObject:
    container = attempt.container
    metadata = {
        "container_uuid": container["uuid"],
        "attempt": str(attempt.number),
        "output": attempt.output,
        "log": container["log"],
        "exit_class": failure(container),
        "cost": f"{container['cost']:g}" if container["cost"] else "",
        "reused": container["uuid"] if attempt.is_reused else "",
        "not_reused": attempt.not_reused,
        "checksums": _checksums(attempt.checksums),
    }
    return {name: value for name, value in metadata.items() if value}


def _checksums(checksums: Mapping[str, str]) -> str:
    """The checksums of the first delivered files, as JSON: values of metadata are texts."""
    first = dict(list(checksums.items())[:_MOST_CHECKSUMS])
    return canonical({url: digest for url, digest in first.items() if digest}) if first else ""


def _system_logs(attempt: TaskAttempt) -> list[str]:
    """The cause of a failure first, then what outputs lack, then the notes."""
    container = attempt.container
    logs: list[str] = []
    status = container["runtime_status"] or {}
    if container["state"] == ContainerState.CANCELLED and status.get("error"):
        logs.append(f"{failure(container) or 'error'}: {status['error']}")
    elif failure(container) == Failure.OOM:
        logs.append("oom: the command used more memory than ram_gb allows")
    if attempt.outputs.excess:
        logs.append(f"warning: {attempt.outputs.excess}")
    if attempt.outputs.missing:
        logs.append(f"missing outputs: {', '.join(attempt.outputs.missing)}")
    logs += [f"warning: no file matches the output {path}" for path in attempt.outputs.unmatched]
    # A container that waits says this as the reason too.
    if status.get("warning") and status["warning"] not in attempt.notes:
        logs.append(f"warning: {status['warning']}")
    return logs + list(attempt.notes)


def _after_cut_line(data: bytes) -> int:
    """Where the text begins in data whose first line is cut, and so is the time of the line. A long
    line is kept from there, as it may be the whole stream: a progress bar ends no line.
    """
    start = data.find(b"\n", 0, _LONG_LINE) + 1
    if 0 < start < len(data):
        return start
    stamp = _CUT_STAMP.match(data)
    return stamp.end() if stamp else 0


def text_end(data: bytes, size: int, where: str) -> str:
    """The end of a stream as text. `data` are the last bytes of the `size` bytes of its log file,
    in which each line begins with its time; a first line tells how many bytes were left out, and
    that `where` has the whole.
    """
    start = _after_cut_line(data) if size > len(data) else 0
    plain = _STAMP.sub(b"", data[start:])
    kept = plain[-MAX_TEXT:]
    left = size - len(data) + start + len(plain) - len(kept)
    text = kept.decode(errors="replace")
    return f"[{left} bytes of the log left out; {where}]\n{text}" if left else text
