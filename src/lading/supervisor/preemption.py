"""Notices that the cloud will take this machine away: looked for only where the dispatcher says
that it can be.

EC2 (instance metadata service, version 2): `spot/instance-action` says that it will be, and when;
the rebalance recommendation that it may be. Azure (scheduled events): an event of type Preempt that
names this machine. Google: the word TRUE at `instance/preempted`. All are asked every five seconds;
after more than five failures in a row no more (docs/spec/containers, section Run).
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
"""The same on every cloud: an address that only the machine itself can reach."""
INTERVAL = 5.0
_FAILURES = 5
_TIMEOUT = 2.0
_TOKEN_LIFE = 21_600
_TOKEN_MARGIN = 60
_AZURE_VERSION = "2020-07-01"


@dataclass(frozen=True, slots=True)
class Notice:
    """What the cloud says. `certain`: it will happen; else it may."""

    text: str
    detail: str
    certain: bool


class Source(Protocol):
    """One cloud's way to say it."""

    async def look(self, now: float) -> Notice | None:
        """What is said at this moment (seconds, monotonic). Raises Unavailable."""
        ...


@dataclass(slots=True)
class Ec2:
    """EC2 spot instances."""

    transport: Transport
    _token: str = field(default="", repr=False)
    _until: float = 0.0

    async def look(self, now: float) -> Notice | None:
        """An action that is scheduled, else a recommendation."""
        action = await self._read("spot/instance-action", now)
        if action is not None:
            text = f"EC2 will {action.get('action')} this instance at {action.get('time')}"
            return Notice(text, msgspec.json.encode(action).decode(), certain=True)
        hint = await self._read("events/recommendations/rebalance", now)
        if hint is not None:
            text = (
                "EC2 says that this instance is likely to be interrupted"
                f" (since {hint.get('noticeTime')})"
            )
            return Notice(text, msgspec.json.encode(hint).decode(), certain=False)
        return None

    async def _read(self, path: str, now: float) -> dict[str, Any] | None:
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
class Azure:
    """Azure spot machines."""

    transport: Transport
    _name: str = ""

    async def look(self, now: float) -> Notice | None:
        """An event of type Preempt for this machine."""
        del now
        answer = await self._get(f"/metadata/scheduledevents?api-version={_AZURE_VERSION}")
        for one in _document(answer).get("Events") or []:
            resources = one.get("Resources") or []
            if one.get("EventType") == "Preempt" and (
                not resources or await self._own_name() in resources
            ):
                text = (
                    f"Azure will take this machine away, not before {one.get('NotBefore') or 'now'}"
                )
                return Notice(text, msgspec.json.encode(one).decode(), certain=True)
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
class Google:
    """Google's spot machines, which have half a minute left."""

    transport: Transport

    async def look(self, now: float) -> Notice | None:
        """Whether it is being taken away."""
        del now
        path = "/computeMetadata/v1/instance/preempted"
        answer = await _ask(self.transport, "GET", path, {"Metadata-Flavor": "Google"})
        if answer.status != 200:
            raise Unavailable(f"metadata {path}: answered {answer.status}")
        if answer.body.strip().upper() != b"TRUE":
            return None
        return Notice("Google takes this machine away within 30 s", "", certain=True)


SOURCES: dict[str, Callable[[Transport], Source]] = {"ec2": Ec2, "azure": Azure, "google": Google}


async def watch(
    source: Source,
    tell: Callable[[Notice], Awaitable[None]],
    *,
    say: Callable[[str], None],
    clock: Callable[[], float],
    interval: float = INTERVAL,
) -> None:
    """Ask until cancelled and tell each new notice; say why when it is given up."""
    failures, last = 0, None
    while True:
        try:
            found = await source.look(clock())
            failures = 0
        except LadingError as error:
            failures += 1
            if failures > _FAILURES:
                say(f"notices of preemption are no longer looked for: {error.message}")
                return
            found = None
        if found is not None and found != last:
            last = found
            await tell(found)
        await asyncio.sleep(interval)


@contextlib.asynccontextmanager
async def open_source(kind: str, address: str = "") -> Any:
    """The source called `kind`, a key of SOURCES."""
    async with HttpTransport(address or ADDRESS) as transport:
        yield SOURCES[kind](transport)


async def _ask(transport: Transport, method: str, path: str, headers: dict[str, str]) -> Response:
    return await transport.request(method, path, headers=headers, timeout=_TIMEOUT)


def _document(answer: Response) -> dict[str, Any]:
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Unavailable(f"metadata: not JSON: {error}") from error
