"""The ASGI application of TES 1.1, below `/ga4gh/tes/v1` and `/v1`.

    GET  service-info, openapi.json
    GET  tasks               name_prefix, state, tag_key, tag_value, page_size, page_token, view
    POST tasks
    GET  tasks/{id}          view
    POST tasks/{id}:cancel

`/v1/tasks/service-info` is the address of TES 1.0. The API decides on permissions: it is called
with the token of the request, whose forms `exchange` has. Addresses can hold tokens and are never
logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lading import __version__
from lading.config.tasks import TES
from lading.core.errors import LadingError, Malformed, NotFound
from lading.core.tes import listing
from lading.core.tes.backend_parameters import BACKEND
from lading.core.tes.document import InvalidTask
from lading.core.tes.file_roots import FileRoot
from lading.core.tes.locations import LocationScheme
from lading.core.tes.openapi import describe_tes
from lading.core.values import MAX_DEPTH, Json, JsonObject, is_too_deep
from lading.net.acceptor import note_known, note_token
from lading.tes.exchange import (
    READ,
    JsonAnswer,
    ServiceCall,
    ServiceIdentity,
    caller_token,
    check_method,
    read_body,
    refusal_head,
    respond,
)
from lading.tes.task_views import TaskCaller
from lading.tes.tasks import Tasks

PREFIX: Final = "/ga4gh/tes/v1"
LEGACY_PREFIX: Final = "/v1"
# Inputs may have their content in the task itself.
MAX_BODY: Final = 16 << 20
_TITLES: Final[Mapping[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_logger = logging.getLogger("lading.tes")


def owns(path: str) -> bool:
    """Whether a path belongs to TES."""
    return any(
        path == prefix or path.startswith(f"{prefix}/") for prefix in (PREFIX, LEGACY_PREFIX)
    )


def make_app(
    tasks: Tasks, settings: TES, identity: ServiceIdentity, *, roots: Sequence[FileRoot] = ()
) -> ASGIApp:
    """The application for all paths that it `owns`. `roots` are those of `file` URLs."""
    return _TesApp(tasks, settings, identity, storage_addresses(roots))


class _TesApp:
    def __init__(
        self, tasks: Tasks, settings: TES, identity: ServiceIdentity, storage: list[str]
    ) -> None:
        self._storage = storage
        self._tasks = tasks
        self._settings = settings
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(scope, receive, send, carry_out=self._answer, refuse=_refusal, logger=_logger)

    async def _answer(self, call: ServiceCall) -> JsonAnswer:
        legacy = not call.path.startswith(f"{PREFIX}/")
        prefix = LEGACY_PREFIX if legacy else PREFIX
        subpath = call.path.removeprefix(prefix).removeprefix("/")
        match subpath:
            case "service-info" | "tasks/service-info":
                check_method(call.method, *READ)
                if not self._settings.PublicServiceInfo:
                    await self._tasks.check(self._caller(call, legacy=legacy))
                is_new = subpath == "service-info"
                return JsonAnswer(200, self._service_info() if is_new else self._old_service_info())
            case "openapi.json":
                check_method(call.method, *READ)
                return JsonAnswer(200, describe_tes(prefix))
        return await self._answer_tasks(call, subpath, legacy=legacy)

    async def _answer_tasks(self, call: ServiceCall, subpath: str, *, legacy: bool) -> JsonAnswer:
        """The answer at `subpath`, the path below the prefix: `tasks` or an address below it."""
        first, _, name = subpath.partition("/")
        # Some clients encode the colon.
        uuid, colon, verb = unquote(name).partition(":")
        if first != "tasks" or "/" in name or (colon and verb != "cancel"):
            raise NotFound(f"no such address; tasks are at {PREFIX}/tasks")
        check_method(call.method, *(("POST",) if colon else READ if uuid else (*READ, "POST")))
        caller = self._caller(call, legacy=legacy)
        await note_token(call.incoming.scope, caller.token)
        body = await self._carry_out(uuid, call, caller, cancels=bool(colon))
        if caller.token != self._settings.AnonymousToken:
            # The API accepted the token.
            note_known(call.incoming.scope)
        return JsonAnswer(200, body)

    async def _carry_out(
        self, uuid: str, call: ServiceCall, caller: TaskCaller, *, cancels: bool
    ) -> Json:
        """The operation of an address on a task, or on all tasks where `uuid` is empty."""
        if cancels:
            await self._tasks.cancel(caller, uuid)
            return {}
        if uuid:
            view = listing.parse_view(dict(call.query).get("view", ""))
            return await self._tasks.get(caller, uuid, view)
        if call.method == "POST":
            return await self._create(call.incoming, caller)
        query = listing.parse_query(call.query, secret=self._tasks.secret)
        return await self._tasks.find(caller, query)

    def _caller(self, call: ServiceCall, *, legacy: bool) -> TaskCaller:
        """Caller of a request. Raises Unauthenticated when nobody is named."""
        token = caller_token(self._settings, call.headers, call.query)
        return TaskCaller(token, legacy)

    async def _create(self, incoming: Request, caller: TaskCaller) -> Json:
        raw = await read_body(incoming, lambda: self._tasks.check(caller), most=MAX_BODY)
        try:
            sent = msgspec.json.decode(raw)
        except RecursionError:
            raise Malformed("body: nested too deep") from None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise Malformed(f"body: not JSON: {error}") from None
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and is_too_deep(sent):
            raise Malformed("body: nested too deep")
        key = incoming.headers.get("idempotency-key", "")
        return {"id": await self._tasks.create(caller, sent, key=key)}

    def _service_info(self) -> JsonObject:
        cluster, url = self._identity.cluster, self._identity.url
        return {
            "id": f"lading.{cluster}",
            "name": f"Lading {cluster}",
            "type": {"group": "org.ga4gh", "artifact": "tes", "version": "1.1.0"},
            "organization": {"name": cluster, "url": url},
            "version": __version__,
            "storage": [*self._storage],
            "tesResources_backend_parameters": [*BACKEND],
        }

    def _old_service_info(self) -> JsonObject:
        doc = "GA4GH Task Execution Service of Lading"
        name = f"Lading {self._identity.cluster}"
        return {"name": name, "doc": doc, "storage": [*self._storage]}


def storage_addresses(roots: Sequence[FileRoot]) -> list[str]:
    """The addresses of inputs and outputs, for service-info."""
    schemes = [
        f"{scheme}://"
        for scheme in LocationScheme
        if scheme not in (LocationScheme.KEEP, LocationScheme.FILE)
    ]
    return ["keep:", *schemes, *(f"file://{root.prefix}/" for root in reversed(roots))]


def _refusal(error: LadingError) -> JsonAnswer:
    status, headers = refusal_head(error, "tasks")
    message = " ".join(error.message.split())
    body: JsonObject = {
        "status": status,
        "title": _TITLES.get(status, "Error"),
        "detail": message,
        "msg": message,
    }
    if isinstance(error, InvalidTask):
        body["errors"] = [
            {"pointer": fault.pointer, "detail": fault.message} for fault in error.faults
        ]
    return JsonAnswer(status, body, headers)
