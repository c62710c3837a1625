"""Notices of clouds that a machine is taken away: EC2, Azure, Google.

Notices of preemption are polled only when the dispatcher reports that preemption is possible. EC2
(instance metadata service, version 2): `spot/instance-action` announces the end and its time; the
rebalance recommendation announces that it is likely. Azure (scheduled events): an event of type
Preempt that names this machine. Google: the word TRUE at `instance/preempted`. All are polled every
five seconds, until more than five polls in a row have failed (docs/spec/containers, section Run).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from lading.client.transport import HttpTransport, Response, Transport
from lading.core.errors import LadingError, Unavailable

ADDRESS = "http://169.254.169.254"
"""The link-local address of the metadata service, the same on every cloud."""
# Seconds between two polls.
INTERVAL = 5.0
# Failed polls in a row after which polling ends.
_FAILURES = 5
# Seconds of one poll.
_NOTICE_TIMEOUT = 2.0
# Seconds; the longest life of a token of IMDSv2.
_TOKEN_LIFE = 21_600
# Seconds before its end at which a token is replaced.
_TOKEN_MARGIN = 60
_AZURE_VERSION = "2020-07-01"


class Notice(msgspec.Struct, frozen=True):
    """A notice of the cloud. `certain`: it will happen; otherwise it may."""

    message: str
    detail: str
    certain: bool


class PreemptionSource(Protocol):
    """Reads from one cloud whether this VM is about to be taken away."""

    async def look(self, now: float) -> Notice | None:
        """The notice at the time `now` (seconds, monotonic), if any. Raises Unavailable."""


@dataclass(slots=True)
class Ec2Preemption:
    """EC2 spot instances."""

    transport: Transport
    _token: str = field(default="", repr=False)
    _until: float = 0.0

    async def look(self, now: float) -> Notice | None:
        """A scheduled action, else a rebalance recommendation."""
        action = await self._read("spot/instance-action", now)
        if action is not None:
            message = f"EC2 will {action.get('action')} this instance at {action.get('time')}"
            return Notice(message, msgspec.json.encode(action).decode(), certain=True)
        hint = await self._read("events/recommendations/rebalance", now)
        if hint is not None:
            message = (
                "EC2 reports that this instance is likely to be interrupted"
                f" (since {hint.get('noticeTime')})"
            )
            return Notice(message, msgspec.json.encode(hint).decode(), certain=False)
        return None

    async def _read(self, path: str, now: float) -> dict[str, Any] | None:
        # A token may have been revoked: 401 is answered with a new one, once.
        for _ in range(2):
            if now >= self._until - _TOKEN_MARGIN:
                await self._renew(now)
            headers = {"X-aws-ec2-metadata-token": self._token}
            answer = await _ask(self.transport, "GET", f"/latest/meta-data/{path}", headers)
            if answer.status == 404:
                return None
            if answer.status == 200:
                return _document(answer)
            self._until = 0.0
            if answer.status != 401:
                break
        raise Unavailable(f"metadata {path}: answered {answer.status}")

    async def _renew(self, now: float) -> None:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_LIFE)}
        answer = await _ask(self.transport, "PUT", "/latest/api/token", headers)
        if answer.status != 200:
            raise Unavailable(f"metadata token: answered {answer.status}")
        self._token, self._until = answer.body.decode().strip(), now + _TOKEN_LIFE


@dataclass(slots=True)
class AzurePreemption:
    """Azure spot machines."""

    transport: Transport
    _name: str = ""

    async def look(self, now: float) -> Notice | None:
        """An event of type Preempt for this machine."""
        # Part of the protocol; only EC2 needs the time for its token.
        del now
        answer = await self._get(f"/metadata/scheduledevents?api-version={_AZURE_VERSION}")
        for event in _document(answer).get("Events") or []:
            resources = event.get("Resources") or []
            if event.get("EventType") == "Preempt" and (
                # An event without resources is for this machine, as Azure sends it to the machine
                # itself.
                not resources or await self._own_name() in resources
            ):
                message = (
                    "Azure will take this machine away,"
                    f" not before {event.get('NotBefore') or 'now'}"
                )
                return Notice(message, msgspec.json.encode(event).decode(), certain=True)
        return None

    async def _own_name(self) -> str:
        if not self._name:
            answer = await self._get(
                f"/metadata/instance/compute/name?api-version={_AZURE_VERSION}&format=text"
            )
            self._name = answer.body.decode().strip()
        return self._name

    async def _get(self, path: str) -> Response:
        answer = await _ask(self.transport, "GET", path, {"Metadata": "true"})
        if answer.status != 200:
            raise Unavailable(f"metadata {path.partition('?')[0]}: answered {answer.status}")
        return answer


@dataclass(slots=True)
class GooglePreemption:
    """Google's spot machines, which end 30 s after the notice."""

    transport: Transport

    async def look(self, now: float) -> Notice | None:
        """The notice that this machine is being preempted."""
        del now
        path = "/computeMetadata/v1/instance/preempted"
        answer = await _ask(self.transport, "GET", path, {"Metadata-Flavor": "Google"})
        if answer.status != 200:
            raise Unavailable(f"metadata {path}: answered {answer.status}")
        if answer.body.strip().upper() != b"TRUE":
            return None
        return Notice("Google takes this machine away within 30 s", "", certain=True)


PREEMPTION_SOURCES: dict[str, Callable[[Transport], PreemptionSource]] = {
    "ec2": Ec2Preemption,
    "azure": AzurePreemption,
    "google": GooglePreemption,
}


async def watch_preemption(
    source: PreemptionSource,
    tell: Callable[[Notice], Awaitable[None]],
    *,
    say: Callable[[str], None],
    clock: Callable[[], float],
    interval: float = INTERVAL,
) -> None:
    """Poll until cancelled and report each new notice; log the reason when polling ends."""
    failures, last = 0, None
    while True:
        try:
            notice = await source.look(clock())
            failures = 0
        except LadingError as error:
            failures += 1
            if failures > _FAILURES:
                say(f"notices of preemption are no longer looked for: {error.message}")
                return
            notice = None
        # The same notice is repeated with every poll.
        if notice is not None and notice != last:
            last = notice
            await tell(notice)
        await asyncio.sleep(interval)


@contextlib.asynccontextmanager
async def open_preemption_source(kind: str, address: str = "") -> Any:
    """Open the source `kind`, a key of SOURCES."""
    async with HttpTransport(address or ADDRESS) as transport:
        yield PREEMPTION_SOURCES[kind](transport)


async def _ask(transport: Transport, method: str, path: str, headers: dict[str, str]) -> Response:
    return await transport.request(method, path, headers=headers, timeout=_NOTICE_TIMEOUT)


def _document(answer: Response) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unavailable(f"metadata: not JSON: {error}") from error
