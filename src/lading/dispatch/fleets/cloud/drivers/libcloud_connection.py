"""Requests over a connection of Apache Libcloud, and the classification of a cloud's refusals.

Libcloud logs in, renews tokens, finds the service and speaks HTTP, each request with a time-out.
The requests are written here, as Libcloud's own methods lack spot machines, user data, and the
removal of parts of a VM.

- Everything that libcloud, its HTTP library or the network raises becomes one of the errors that a
  driver may raise.
- A missing object is `Missing`: no error at removal, a wrong name in the configuration at creation.

Source: docs/spec/cloud, section Drivers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lading.core.errors import Invalid, LadingError, Unavailable
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    Instance,
    InstanceSpec,
    NoCapacity,
    QuotaReached,
    RateLimited,
)

TIMEOUT = 30.0
"""Seconds for one request to a cloud."""
# Messages of Libcloud: "[code] text".
_CODE = re.compile(r"^\[(\w+)\]\s*(.*)$", re.DOTALL)
# Matches no text.
_NEVER = re.compile(r"(?!)")
# Characters of a cloud's error that are shown: some answer with a page of HTML.
_LONGEST_WORDS = 300
_CHECK = "check Containers.CloudVMs (DriverParameters, ImageID) and InstanceTypes"


class Missing(Unavailable):
    """The cloud does not have the requested thing."""

    def at_creation(self) -> Invalid:
        """The error for the creation of a VM: only the configuration can name a missing thing."""
        return Invalid(f"{self.message}; check Containers.CloudVMs (DriverParameters, ImageID)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Codes and sentences with which one cloud refuses something."""

    cloud: str
    rate: frozenset[str] = frozenset()
    quota: frozenset[str] = frozenset()
    quota_said: re.Pattern[str] = _NEVER
    capacity: frozenset[str] = frozenset()
    capacity_said: re.Pattern[str] = _NEVER
    wrong_said: re.Pattern[str] = _NEVER


class Provider(Protocol):
    """One cloud, used by one thread. Its methods block; they raise the errors of `Driver`."""

    def create(self, spec: InstanceSpec) -> Instance:
        """Make a VM; its parts are removed again when that fails."""

    def list(self) -> list[Instance]:
        """Our VMs."""

    def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Give a VM these tags and no others."""

    def destroy(self, id: str) -> None:
        """Remove a VM and its parts."""

    def console(self, id: str) -> str:
        """The console output of a VM, "" when there is none."""

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLogin:
    """A cloud whose parameters were read. `open` logs in; it blocks, and raises as `Driver.list`
    does.
    """

    open: Callable[[], Provider]
    group: Callable[[InstanceType], str]
    preemption: str = ""


@dataclass(frozen=True, slots=True)
class LibcloudResponse:
    """Response of a cloud."""

    document: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


class LibcloudConnection:
    """One connection. `connection` is libcloud's."""

    def __init__(self, words: Words, connection: Any) -> None:
        self._words = words
        self._connection = connection

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> LibcloudResponse:
        """One request. Raises Missing, RateLimited, QuotaReached, NoCapacity, Unavailable,
        Invalid.
        """

        def work() -> LibcloudResponse:
            sent = self._connection.request(
                path, params=dict(params or {}), data=body or None, method=method
            )
            found = sent.object
            return LibcloudResponse(found if isinstance(found, Mapping) else {}, sent.headers)

        return guarded(self._words, work)

    def close(self) -> None:
        """Close the connection of the moment."""
        session: Any = getattr(getattr(self._connection, "connection", None), "session", None)
        if session is not None:
            session.close()


def log_in(words: Words, driver: Callable[[], Any]) -> LibcloudConnection:
    """The connection of libcloud's `driver`, which may log in as it is made. Raises as
    `LibcloudConnection.ask`.
    """
    connections: list[LibcloudConnection] = []

    def make() -> LibcloudResponse:
        connections.append(LibcloudConnection(words, driver().connection))
        return LibcloudResponse()

    guarded(words, make)
    return connections[0]


def guarded(words: Words, work: Callable[[], LibcloudResponse]) -> LibcloudResponse:
    """Call `work`, and translate its errors into the errors of drivers; a success without content
    is an empty response.
    """
    from libcloud.common.exceptions import BaseHTTPError
    from libcloud.common.types import InvalidCredsError, LibcloudError, ProviderError
    from requests import RequestException

    try:
        return work()
    except LadingError:
        raise
    except BaseHTTPError as error:
        if 200 <= error.code < 300:
            return LibcloudResponse()
        code, message = _code_of(str(error.message))
        raise judge(
            words, int(error.code), code=code, message=message, pause=_pause(error.headers)
        ) from error
    except InvalidCredsError as error:
        raise judge(words, 401, message=str(error.value)) from error
    except ProviderError as error:
        value = error.value
        message = str(value.get("message") or value) if isinstance(value, Mapping) else str(value)
        symbol: object = getattr(error, "code", None)
        raise judge(
            words, int(error.http_code or 0), code=str(symbol or ""), message=message
        ) from error
    except (RequestException, OSError) as error:
        raise Unavailable(f"{words.cloud} cannot be reached: {_short(str(error))}") from error
    except (LibcloudError, AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{type(error).__name__}: {_short(str(error))}"
        if words.wrong_said.search(message):
            raise Invalid(f"{words.cloud}: {message}; {_CHECK}") from error
        raise Unavailable(
            f"{words.cloud} sent an answer that cannot be understood ({message})"
        ) from error


def judge(
    words: Words, status: int, *, code: str = "", message: str = "", pause: float | None = None
) -> LadingError:
    """The error for a refusal."""
    sentence = f"{words.cloud}: {code or status}: {_short(message)}"
    if status == 429 or code in words.rate:
        return RateLimited(sentence, pause=pause)
    if code in words.capacity or words.capacity_said.search(message):
        return NoCapacity(sentence)
    if code in words.quota or (
        status in (0, 200, 400, 403, 409, 413) and words.quota_said.search(message)
    ):
        return QuotaReached(sentence)
    if status in (404, 410):
        return Missing(sentence)
    if status in (400, 401, 403) or words.wrong_said.search(f"{code} {message}"):
        return Invalid(f"{sentence}; {_CHECK}")
    return Unavailable(sentence)


def wait_for(done: Callable[[], bool], *, longest: float, pause: float) -> bool:
    """Ask until something is done, or for so many seconds; whether it is."""
    until = time.monotonic() + longest
    while not done():
        if time.monotonic() + pause > until:
            return False
        time.sleep(pause)
    return True


def _code_of(message: str) -> tuple[str, str]:
    found = _CODE.match(message)
    return (found[1], found[2]) if found else ("", message)


def _pause(headers: Mapping[str, str] | None) -> float | None:
    value = (headers or {}).get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _short(message: str) -> str:
    return " ".join(message.split())[:_LONGEST_WORDS]
