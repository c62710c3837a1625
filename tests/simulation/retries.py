"""Retries that the rules of a request allow, told without the code that plans them.

`attempts` are the containers that a request has had, the last one included.
"""

from __future__ import annotations

from collections.abc import Iterable

from lading.core.containers.container import Container
from lading.core.containers.request import ContainerRequest
from tests.simulation.tables import RecordTables


def excess(subject: ContainerRequest, attempts: Iterable[str], records: RecordTables) -> str:
    """What is wrong with a further container for a request, "" for nothing."""
    ended = records.containers[subject.container_uuid or ""]
    limit = _limit(subject, ended)
    if limit is None or _alike(ended, attempts, records) < limit:
        return ""
    failure = _failure(ended) or "a success"
    return f"{subject.uuid} is tried again after {failure}, more than {limit} times"


def may_have_more(
    subject: ContainerRequest, ended: Container, attempts: Iterable[str], records: RecordTables
) -> bool:
    """Whether a request whose container has ended must be tried again, as far as its rules say."""
    # More ram is bounded too: a container that has all that it may get is given up earlier.
    if _failure(ended) == "oom":
        return False
    limit = _limit(subject, ended)
    return limit is None or _alike(ended, attempts, records) < limit


def _limit(subject: ContainerRequest, ended: Container) -> int | None:
    """Number of retries after a failure; None: any number."""
    rules = subject.scheduling_parameters.get("retry")
    rule = rules.get(_failure(ended)) if isinstance(rules, dict) else None
    limit = rule.get("limit") if isinstance(rule, dict) else None
    if isinstance(limit, int):
        return limit
    # A command that ran to its end gave a result.
    return None if ended.state == "Cancelled" else 0


def _alike(ended: Container, attempts: Iterable[str], records: RecordTables) -> int:
    """Number of earlier attempts that failed as this one did."""
    failure = _failure(ended)
    earlier = (records.containers[uuid] for uuid in attempts if uuid != ended.uuid)
    return sum(_failure(one) == failure for one in earlier)


def _failure(ended: Container) -> str:
    """Class of failure of a container that has ended; "" for none or an unknown one."""
    if ended.state == "Complete" and not ended.exit_code:
        return ""
    known = str(ended.runtime_status.get("failure") or "")
    return known or ("user" if ended.state == "Complete" else "")
