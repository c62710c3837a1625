"""A client of the API server of Kubernetes, for the few verbs that a dispatcher may use.

- A request is repeated while the server does not answer, answers 5xx, or asks for a pause (429, 503
  with Retry-After), for `patience` seconds in all. So a POST may arrive twice: names are chosen so
  that the second one is answered with 409 (`AlreadyThere`).
- Lists come in pages; a list that grew too old between two pages begins anew.
- A watch is one stream of events; whoever reads it goes on after its end. Gone: its version is too
  old, all has to be listed again.

Source: docs/spec/kubernetes, sections Start and Following.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec

from lading.client.transport import Response, Transport
from lading.core.errors import (
    Conflict,
    Forbidden,
    Gone,
    LadingError,
    NotFound,
    Unauthenticated,
    Unavailable,
    from_status,
)
from lading.core.kubernetes.pod_states import shorten
from lading.core.kubernetes.refusals import (
    Refusal,
    explain_missing_namespace,
    explain_refusal,
)
from lading.core.values import Json, JsonObject

_PAGE = 500
_NAMESPACES = "namespaces"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
# Bytes of one event of a watch: an object of Kubernetes has at most 1.5 MiB.
_LONGEST_EVENT = 8 << 20
# Seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
# Lists that are begun anew because they grew too old.
_MOST_LISTS = 5
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class AlreadyThere(Conflict):
    """An object of this name is there already."""


class NotAllowed(Forbidden):
    """The API server refuses a request: a right, a quota or a policy."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object."""

    kind: str
    object: JsonObject

    @property
    def version(self) -> str:
        """Version of the collection after this event."""
        return version_of(self.object)


class KubernetesApi:
    """The client of one namespace. Times are seconds; `patience` is for one call with all its
    repetitions, `timeout` for one answer, `watch_time` for one watch.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        token: Callable[[], str] = lambda: "",
        timeout: float = 30.0,
        patience: float = 60.0,
        watch_time: float = 240.0,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        self._transport = transport
        self.namespace = namespace
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._watch_time = watch_time
        self._first_pause = first_pause

    def with_patience(self, seconds: float) -> KubernetesApi:
        """The same client with another patience."""
        other = copy.copy(self)
        other._patience = seconds
        return other

    async def create(self, resource: str, manifest: JsonObject) -> JsonObject:
        """Make an object. Raises AlreadyThere, NotAllowed, Invalid, Unavailable."""
        return await self._ask("POST", resource, "create", body=manifest)

    async def get(self, resource: str, name: str) -> JsonObject | None:
        """An object; None if there is none. Raises NotAllowed, Unavailable."""
        try:
            return await self._ask("GET", resource, "get", name=name)
        except NotFound:
            return None

    async def delete(
        self, resource: str, name: str, *, grace: int | None = None, uid: str = ""
    ) -> None:
        """Delete an object, if it is there and has this uid ("": any). `grace`: seconds; None is as
        the object says. Raises NotAllowed, Unavailable.
        """
        options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._ask("DELETE", resource, "delete", name=name, body=options)
        except (NotFound, Conflict):
            # It is gone, or another object has its name.
            return

    async def list_all(self, resource: str, selector: str) -> tuple[list[Json], str]:
        """All objects with these labels, and the version of the list. Raises NotAllowed,
        Unavailable.
        """
        for _ in range(_MOST_LISTS):
            try:
                return await self._list(resource, selector)
            except Gone:
                continue
        raise Unavailable(f"Kubernetes: the list of {resource} grows old before it is read")

    async def check_namespace(self) -> None:
        """Ask whether the namespace exists. Raises NotAllowed if it does not, or if it may not be
        asked for, by `Refusal.kind`; Unavailable.
        """
        path = f"/api/v1/{_NAMESPACES}/{self.namespace}"
        await self._send("GET", path, body=None, verb="get", resource=_NAMESPACES)

    async def may(self, verb: str, resource: str) -> bool:
        """Whether this client has a right in the namespace. Raises NotAllowed, Unavailable."""
        review: JsonObject = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "namespace": self.namespace,
                    "verb": verb,
                    "resource": resource,
                }
            },
        }
        answer = await self._send("POST", _REVIEWS, body=review, verb="review", resource="rights")
        status = answer.get("status")
        return isinstance(status, dict) and status.get("allowed") is True

    async def _list(self, resource: str, selector: str) -> tuple[list[Json], str]:
        listed: list[Json] = []
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        while True:
            page = await self._ask("GET", resource, "list", query=query)
            items, metadata = page.get("items"), page.get("metadata")
            if items is not None and not isinstance(items, list):
                raise Unavailable(f"Kubernetes: the list of {resource} cannot be read")
            listed += items or []
            further = metadata.get("continue") if isinstance(metadata, dict) else None
            if not further:
                return listed, version_of(page)
            query["continue"] = str(further)

    async def watch(self, resource: str, selector: str, version: str) -> AsyncGenerator[WatchEvent]:
        """The changes after a version, until the server ends the stream. Raises Gone when the
        version is too old, NotAllowed, Unavailable.
        """
        query = {
            "watch": "1",
            "labelSelector": selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(self._watch_time))),
        }
        stream = self._transport.stream(
            "GET",
            self._path(resource, query=query),
            headers=self._headers(),
            timeout=self._watch_time + self._timeout,
        )
        async with stream as answer:
            if answer.status != 200:
                refused = Response(answer.status, answer.headers, await answer.read())
                raise self._error(refused, "watch", resource)
            async with aclosing(_lines(answer.chunks)) as lines:
                async for line in lines:
                    yield self._read_event(line, resource)

    def _read_event(self, line: bytes, resource: str) -> WatchEvent:
        try:
            found = _decode(line)
        except msgspec.DecodeError as error:
            raise Gone(f"Kubernetes: an event of {resource} cannot be read") from error
        kind, about = found.get("type"), found.get("object")
        if not isinstance(kind, str) or not isinstance(about, dict):
            raise Gone(f"Kubernetes: an event of {resource} cannot be read")
        if kind == "ERROR":
            code = about.get("code")
            status = code if isinstance(code, int) else 500
            # A watch says by an event what its status could not say any more.
            raise self._error(Response(status, {}, msgspec.json.encode(about)), "watch", resource)
        return WatchEvent(kind, about)

    # One request.

    async def _ask(
        self,
        method: str,
        resource: str,
        verb: str,
        *,
        name: str = "",
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        path = self._path(resource, name=name, query=query)
        return await self._send(method, path, body=body, verb=verb, resource=resource)

    async def _send(
        self, method: str, path: str, *, body: JsonObject | None, verb: str, resource: str
    ) -> JsonObject:
        data = msgspec.json.encode(body) if body is not None else b""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + self._patience, self._first_pause
        while True:
            asked_pause = 0.0
            try:
                answer = await self._transport.request(
                    method, path, headers=self._headers(), body=data, timeout=self._timeout
                )
                if answer.status < 300:
                    return _decode(answer.body)
                error = self._error(answer, verb, resource)
                asked_pause = _retry_after(answer)
            except Unavailable as fault:
                error = fault
            except msgspec.DecodeError as fault:
                error = Unavailable(f"Kubernetes: the answer to {verb} {resource} is no JSON")
                error.__cause__ = fault
            if not isinstance(error, Unavailable) or loop.time() + max(pause, asked_pause) >= until:
                raise error
            await asyncio.sleep(max(pause, asked_pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _path(
        self, resource: str, *, name: str = "", query: Mapping[str, str] | None = None
    ) -> str:
        path = f"/api/v1/namespaces/{self.namespace}/{resource}"
        if name:
            path += f"/{name}"
        return f"{path}?{urlencode(query)}" if query else path

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _error(self, answer: Response, verb: str, resource: str) -> LadingError:
        reason, message = _read_status(answer.body)
        match answer.status:
            case 401:
                return Unauthenticated(
                    "Kubernetes does not know the dispatcher's token or certificate;"
                    " check Containers.Kubernetes.Kubeconfig"
                )
            case 403:
                refusal = explain_refusal(
                    message, verb=verb, resource=resource, namespace=self.namespace
                )
                return NotAllowed(refusal)
            # An object that is made needs its namespace alone.
            case 404 if verb == "create" or resource == _NAMESPACES:
                return NotAllowed(explain_missing_namespace(message, namespace=self.namespace))
            case 409 if verb == "create":
                if reason == "AlreadyExists":
                    return AlreadyThere(f"Kubernetes: {shorten(message)}")
                # A quota was changed at the same time: nothing was made.
                return Unavailable(f"Kubernetes: {shorten(message)}")
            case 429:
                return Unavailable(f"Kubernetes is busy: {shorten(message)}")
            case status if status >= 500:
                return Unavailable(f"Kubernetes: {shorten(message) or f'it answers {status}'}")
            case status:
                return from_status(
                    status, f"Kubernetes: {shorten(message) or f'{verb} {resource}: {status}'}"
                )


def version_of(thing: Mapping[str, object]) -> str:
    """The resourceVersion of an object or a list; "" without one."""
    metadata = thing.get("metadata")
    found = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else ""


def _retry_after(answer: Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0


def _read_status(body: bytes) -> tuple[str, str]:
    """Reason and message of the body of a refusal."""
    try:
        found = _decode(body)
    except msgspec.DecodeError:
        return "", body[:1000].decode(errors="replace")
    return str(found.get("reason") or ""), str(found.get("message") or "")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            if line.strip():
                yield line
        if len(buffer) > _LONGEST_EVENT:
            raise Gone("Kubernetes: an event is too long to be read")
