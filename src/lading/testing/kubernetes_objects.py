"""Faults and objects of the fake Kubernetes cluster (`lading.testing.kubernetes`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

Thing = dict[str, Any]
"""An object of Kubernetes, as JSON."""
_MEANING = {200: "", 400: "BadRequest", 404: "NotFound", 409: "AlreadyExists", 410: "Expired"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Malice:
    """Chances from 0 to 1."""

    away: float = 0.0
    """A request has no effect, and no answer."""
    mute: float = 0.0
    """A request has its effect, and no answer."""
    late: float = 0.0
    """A POST has no answer, and its effect some time later."""
    busy: float = 0.0
    """429 with Retry-After, 503 or 500, or a 409 of a quota."""
    cut: float = 0.0
    """A watch breaks before an event, within its line."""
    old: float = 0.0
    """A watch is answered with 410, as a status or an event."""
    stale: float = 0.0
    """A list is one of a while ago; never two in a row."""
    crash: float = 0.0
    """A supervisor ends before its work is done."""
    deleted: float = 0.0
    """Somebody deletes a Pod that runs."""
    slow: int = 0
    """Most turns of the event loop that anything takes."""


def status(code: int, reason: str = "", message: str = "") -> Thing:
    """A Status object."""
    reason = reason or _MEANING.get(code, "")
    return {"kind": "Status", "code": code, "reason": reason, "message": message or reason}


def container_statuses(pod: Thing, **state: Any) -> list[Thing]:
    """The status of the one container of a Pod."""
    return [{"name": pod["spec"]["containers"][0]["name"], "state": state}]


def bookmark(version: int) -> Thing:
    """The object of a bookmark of Pods."""
    metadata = {"resourceVersion": str(version)}
    empty: Thing = {"spec": {"containers": None}, "status": {}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **empty}


def read_version(query: Mapping[str, str]) -> int | None:
    """The resourceVersion of a query, 0 without one; None for what is no version."""
    text = query.get("resourceVersion", "0")
    return int(text) if text.isascii() and text.isdigit() else None


def takes_room(pod: Thing) -> bool:
    """Whether a Pod is on a node, and has not ended."""
    return "nodeName" in pod["spec"] and pod["status"]["phase"] not in ("Succeeded", "Failed")


async def once(data: bytes) -> AsyncIterator[bytes]:
    """The chunks of a body."""
    yield data
