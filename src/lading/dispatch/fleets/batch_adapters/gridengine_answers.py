"""Answers of Grid Engine's programs, read.

- `qstat -xml` and `qhost -xml` are XML; an answer that is cut cannot be read at all, which is
  Unavailable.
- The mark of a job is its name, with points in place of blanks, which names may not have.
- `qacct` prints a block of lines for each run of a job id: an id may have belonged to another job
  before, and the name tells which block is meant.
- States are letters (sge_status(5)): q queued, w waiting, h held, R started again, t and r running,
  s, S and T suspended, d being deleted, E in error: the last never starts.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from xml.etree import ElementTree

from lading.core.errors import Failure, Unavailable
from lading.dispatch.fleets.batch.batch_system import JobPhase, QueueRow

SYSTEM: Final = "Grid Engine"
_UNITS: Final = MappingProxyType({"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40})
_SIZE: Final = re.compile(r"([\d.]+)([KMGT]?)", re.IGNORECASE)
_JOB_NUMBER: Final = re.compile(r"^job_number: +(\d+)$", re.MULTILINE)
_RULE: Final = re.compile(r"^=+$", re.MULTILINE)
# Codes of `failed` in the accounts (sge_status(5)) from which the job never ran.
_NEVER_RAN: Final = frozenset({1, 3, 4, 7, 8, 9, 10, 11, 21, 26, 27, 28, 29})
_LOST: Final = frozenset({18, 19, 20, 24, 25})
_OVER_TIME: Final = 37
_KILLED: Final = frozenset({17, 100})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInstance:
    """A queue on a host: its number of slots, and whether it starts jobs."""

    queue: str
    slots: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An execution host: bytes of RAM, its queues, and its numeric resources by name."""

    name: str
    vcpus: int
    ram: int
    queues: tuple[QueueInstance, ...]
    resources: Mapping[str, float]


def job_name(mark: str) -> str:
    """The name of a job with this mark."""
    return mark.replace(" ", ".")


def read_jobs(answer: str) -> list[QueueRow]:
    """The jobs in the output of `qstat -xml`. Raises Unavailable for an answer that is no XML."""
    return [
        row for job in _parse(answer, "qstat").iter("job_list") if (row := _row(job)) is not None
    ]


def _row(job: ElementTree.Element) -> QueueRow | None:
    number, state = job.findtext("JB_job_number", ""), job.findtext("state", "")
    name = job.findtext("JB_name") or ""
    if not number.isdecimal() or not state:
        return None
    is_waiting = "q" in state
    return QueueRow(
        job=number,
        mark=name.replace(".", " "),
        phase=JobPhase.WAITING if is_waiting else JobPhase.RUNNING,
        state=state,
        node=(job.findtext("queue_name") or "").partition("@")[2],
        nice=_number(job.findtext("JB_priority", "0")),
        reason="it is held" if is_waiting and "h" in state else "",
        restarts=int("R" in state),
        is_movable="h" not in state,
        is_ending="d" in state,
        is_stuck="E" in state,
        end="it could not be started and is in error state" if "E" in state else "",
        failure=Failure.NODE if "E" in state else Failure.INFRASTRUCTURE,
    )


def _number(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        return 0


def read_hosts(answer: str) -> list[Host]:
    """The hosts in the output of `qhost -q -F -xml`. Raises Unavailable for an answer that is no
    XML.
    """
    hosts = []
    for host in _parse(answer, "qhost").iter("host"):
        values = {value.get("name", ""): value.text or "" for value in host.findall("hostvalue")}
        resources = {
            value.get("name", ""): size
            for value in host.findall("resourcevalue")
            if (size := read_size(value.text or "")) is not None
        }
        ram = read_size(values.get("mem_total", ""))
        vcpus = values.get("num_proc", "")
        # A host that does not answer has "-" for all its values.
        if ram is None or not vcpus.isdecimal():
            continue
        hosts.append(
            Host(
                name=host.get("name", ""),
                vcpus=int(vcpus),
                ram=int(ram),
                queues=tuple(_queues(host)),
                resources=resources,
            )
        )
    return hosts


def _queues(host: ElementTree.Element) -> Iterator[QueueInstance]:
    for queue in host.findall("queue"):
        values = {value.get("name", ""): value.text or "" for value in queue.findall("queuevalue")}
        slots = values.get("slots", "")
        if slots.isdecimal():
            # Letters say that it is disabled, suspended, in error or does not answer; "a" and "A"
            # say that it is loaded now.
            is_open = not set(values.get("state_string", "")) & set("dDsSCuEco")
            yield QueueInstance(queue=queue.get("name", ""), slots=int(slots), is_open=is_open)


def read_size(words: str) -> float | None:
    """A number with a unit, such as "31.4G"; None for what is none."""
    match = _SIZE.fullmatch(words.strip())
    try:
        return float(match[1]) * _UNITS[match[2].upper()] if match else None
    except ValueError:
        return None


def read_reasons(answer: str) -> dict[str, str]:
    """Why jobs wait, by their ids, in the output of `qstat -j`."""
    reasons = {}
    for block in _RULE.split(answer):
        number = _JOB_NUMBER.search(block)
        if number is not None:
            _, _, scheduling = block.partition("\nscheduling info:")
            lines = [line.strip() for line in scheduling.splitlines() if line.strip()]
            reasons[number[1]] = "; ".join(lines[:2])[:200]
    return {job: reason for job, reason in reasons.items() if reason}


def read_accounts(answer: str) -> list[QueueRow]:
    """The ended jobs in the output of `qacct -j`, the latest last."""
    rows = []
    for block in _RULE.split(answer):
        fields = {
            key: value.strip()
            for key, _, value in (line.partition(" ") for line in block.splitlines())
        }
        if fields.get("jobnumber", "").isdecimal():
            rows.append(_account(fields))
    return rows


def _account(fields: Mapping[str, str]) -> QueueRow:
    code, _, words = fields.get("failed", "").partition(":")
    failed = int(code) if code.strip().isdecimal() else 0
    status = fields.get("exit_status", "").partition("(")[0].strip()
    end, failure = _end(failed, status)
    return QueueRow(
        job=fields["jobnumber"],
        mark=fields.get("jobname", "").replace(".", " "),
        phase=JobPhase.ENDED,
        state=f"failed {failed}" if failed else f"exit {status or '?'}",
        reason=words.strip(),
        node=fields.get("hostname", ""),
        end=end,
        failure=failure,
    )


def _end(failed: int, status: str) -> tuple[str, Failure]:
    if failed == _OVER_TIME:
        return "it ran longer than Grid Engine let it", Failure.TIMEOUT
    if failed in _LOST:
        return "its node failed, or it was sent away from it", Failure.NODE
    if failed in _NEVER_RAN:
        return "it could not be started on its node", Failure.NODE
    if failed in _KILLED:
        return "it was killed, by Grid Engine or by its owner", Failure.INFRASTRUCTURE
    if status in ("0", ""):
        return "its script came to its end", Failure.INFRASTRUCTURE
    return "its script failed", Failure.INFRASTRUCTURE


def _parse(answer: str, program: str) -> ElementTree.Element:
    try:
        # The programs are the site's own, and names in their answers are escaped. Expansion of
        # entities is bounded by expat.
        return ElementTree.fromstring(answer)  # noqa: S314
    except ElementTree.ParseError as error:
        raise Unavailable(f"{program}: its answer is no XML: {error}") from error
