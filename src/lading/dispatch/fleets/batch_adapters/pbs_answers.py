"""Answers of the programs of PBS Professional and OpenPBS, read.

- `qstat -f -F json`, `qstat -Q` and `pbsnodes` print JSON; an answer that is cut cannot be read at
  all, which is Unavailable.
- The mark of a job is its name, with points in place of blanks, which names may not have.
- States are letters: Q queued, H held, W waiting for its time, T moving, M moved, R running, E
  ending, S and U suspended, B begun (of arrays), F and X finished. A system hold (`Hold_Types` s)
  is set by PBS after too many failed starts: such a job never starts.
- Negative exit states are those of PBS, others those of the script (128 and a signal, or 256 and a
  signal).

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from lading.core.errors import Failure, Unavailable
from lading.core.resources import Resources
from lading.core.values import JsonObject
from lading.dispatch.fleets.batch.batch_system import JobPhase, QueueRow
from lading.dispatch.fleets.batch.node_shapes import KnownNode

SYSTEM: Final = "PBS"
_WAITING: Final = frozenset("QHWTM")
_ENDED: Final = frozenset("FX")
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)[bw]?", re.IGNORECASE)
_UNITS: Final = MappingProxyType({"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40})
# Words for exit states that PBS gives (job.h of OpenPBS).
_ENDS: Final[Mapping[int, tuple[str, Failure]]] = MappingProxyType(
    {
        -29: ("it ran longer than PBS let it", Failure.TIMEOUT),
        -28: ("it used more processor time than PBS let it", Failure.TIMEOUT),
        -27: ("PBS ended it for using too much memory", Failure.OOM),
        -26: ("PBS ended it for using too much memory", Failure.OOM),
        -25: ("PBS ended it for using too many processors", Failure.INFRASTRUCTURE),
        -24: ("PBS ended it for using too many processors", Failure.INFRASTRUCTURE),
        -20: ("its node failed", Failure.NODE),
        -11: ("PBS sent it back to the queue", Failure.PREEMPTED),
    }
)
_KILLED: Final = frozenset({128 + 9, 128 + 15, 256 + 9, 256 + 15})
_DOWN: Final = ("down", "offline", "unknown", "stale", "provisioning", "maintenance")


def job_name(mark: str) -> str:
    """The name of a job with this mark."""
    return mark.replace(" ", ".")


def read_jobs(answer: str, *, user: str) -> list[QueueRow]:
    """The jobs of a user in the output of `qstat -f -F json`. Raises Unavailable for an answer that
    is no JSON.
    """
    jobs = _section(answer, "Jobs", "qstat")
    return [
        row
        for job, fields in jobs.items()
        if isinstance(fields, dict) and (row := _row(job, fields, user=user)) is not None
    ]


def _row(job: str, fields: JsonObject, *, user: str) -> QueueRow | None:
    state = _words(fields, "job_state")
    if not state or _words(fields, "Job_Owner").partition("@")[0] != user:
        return None
    is_stuck = state == "H" and "s" in _words(fields, "Hold_Types")
    end, failure = ("PBS holds it after failed starts", Failure.NODE) if is_stuck else _end(fields)
    return QueueRow(
        job=job,
        mark=_words(fields, "Job_Name").replace(".", " "),
        phase=_phase(state),
        state=state,
        reason=_words(fields, "comment")[:200],
        node=_words(fields, "exec_host").partition("/")[0],
        nice=_number(fields, "Priority"),
        restarts=max(0, _number(fields, "run_count") - 1),
        is_movable=state == "Q",
        is_ending=state == "E",
        is_stuck=is_stuck,
        end=end,
        failure=failure,
    )


def _phase(state: str) -> JobPhase:
    if state in _ENDED:
        return JobPhase.ENDED
    return JobPhase.WAITING if state in _WAITING else JobPhase.RUNNING


def _end(fields: JsonObject) -> tuple[str, Failure]:
    if "Exit_status" not in fields:
        return "it ended before it ran", Failure.INFRASTRUCTURE
    status = _number(fields, "Exit_status")
    if status in _ENDS:
        return _ENDS[status]
    if status < 0:
        return "it could not be started on its node", Failure.NODE
    if status in _KILLED:
        return "it was killed, by PBS or by its owner", Failure.INFRASTRUCTURE
    words = "its script came to its end" if status == 0 else "its script failed"
    return words, Failure.INFRASTRUCTURE


def read_queues(answer: str) -> tuple[str, ...]:
    """The queues that start jobs, in the output of `qstat -Q -f -F json`. Raises Unavailable."""
    queues = _section(answer, "Queue", "qstat")
    return tuple(
        sorted(
            name
            for name, fields in queues.items()
            if isinstance(fields, dict)
            and _words(fields, "queue_type").startswith("E")
            and _words(fields, "enabled") == _words(fields, "started") == "True"
        )
    )


def read_nodes(answer: str, *, queues: tuple[str, ...], gpus: str, scratch: int) -> list[KnownNode]:
    """The nodes that take jobs, in the output of `pbsnodes -a -F json`; `gpus` is the resource that
    counts GPUs, `scratch` bytes of each node's disk. Raises Unavailable.
    """
    nodes = []
    for name, fields in _section(answer, "nodes", "pbsnodes").items():
        resources = fields.get("resources_available") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not isinstance(resources, dict):
            continue
        ram, state = _size(resources.get("mem")), _words(fields, "state")
        if ram is None or any(word in state for word in _DOWN):
            continue
        bound = {word for word in _words(fields, "queue").split(",") if word}
        nodes.append(
            KnownNode(
                name=name,
                capacity=Resources(
                    _number(resources, "ncpus"), ram, scratch, _number(resources, gpus)
                ),
                partitions=frozenset(bound or queues),
                is_default=not bound,
            )
        )
    return nodes


def _size(words: object) -> int | None:
    match = _SIZE.fullmatch(str(words))
    return int(match[1]) * _UNITS[match[2].lower()] if match else None


def _number(fields: JsonObject, name: str) -> int:
    value = fields.get(name)
    digits = str(value)
    return int(digits) if digits.removeprefix("-").isdecimal() else 0


def _words(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _section(answer: str, name: str, program: str) -> JsonObject:
    try:
        document = msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{program}: its answer is no JSON: {error}") from error
    section = document.get(name, {}) if isinstance(document, dict) else {}
    return section if isinstance(section, dict) else {}
