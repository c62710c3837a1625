"""The ASGI application of WES 1.1, below `/ga4gh/wes/v1`.

    GET  service-info, openapi.json
    GET  runs                    page_size, page_token
    POST runs                    multipart/form-data
    GET  runs/{id}
    GET  runs/{id}/status
    GET  runs/{id}/tasks         page_size, page_token
    GET  runs/{id}/tasks/{task}
    POST runs/{id}/cancel

Credentials and permissions are those of TES, as are the settings (section TES).
"""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lading import __version__
from lading.client.transport import Transport
from lading.config.tasks import TES
from lading.core.errors import LadingError, Malformed, NotFound
from lading.core.protocols import http_head
from lading.core.protocols.daemon_http import form_parts, media_type
from lading.core.values import Json, JsonObject
from lading.core.wes import listing
from lading.core.wes.document import (
    ENGINE,
    PROTOCOLS,
    TYPE,
    VERSIONS,
    InvalidRun,
    attachment_path,
    check_attachments,
    read_run,
)
from lading.core.wes.openapi import describe_wes
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
from lading.tes.runs import WorkflowRuns

PREFIX: Final = "/ga4gh/wes/v1"
MAX_BODY: Final = 32 << 20
"""Bytes of a form with its attachments; larger files belong into collections."""
_ATTACHMENT: Final = "workflow_attachment"
_logger = logging.getLogger("lading.wes")


def owns(path: str) -> bool:
    """Whether a path belongs to WES."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def make_app(
    transport: Transport,
    settings: TES,
    identity: ServiceIdentity,
    *,
    image: str,
    engine_version: str,
    secret: bytes,
) -> ASGIApp:
    """The application for all paths that it `owns`. `transport` leads to the API; `image` is that
    of the runner of this version; `secret` signs the tokens of pages.
    """
    runs = WorkflowRuns(transport, image=image, url=identity.url, secret=secret)
    return _WesApp(runs, settings, identity, engine_version)


class _WesApp:
    def __init__(
        self, runs: WorkflowRuns, settings: TES, identity: ServiceIdentity, engine_version: str
    ) -> None:
        self._runs = runs
        self._settings = settings
        self._identity = identity
        self._engine_version = engine_version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(scope, receive, send, carry_out=self._answer, refuse=_refusal, logger=_logger)

    async def _answer(self, call: ServiceCall) -> JsonAnswer:
        parts = call.path.removeprefix(PREFIX).removeprefix("/").split("/")
        if parts == ["service-info"]:
            check_method(call.method, *READ)
            return JsonAnswer(200, await self._service_info(call))
        if parts == ["openapi.json"]:
            check_method(call.method, *READ)
            return JsonAnswer(200, describe_wes(PREFIX))
        if parts[0] != "runs":
            raise NotFound(f"no such address; runs are at {PREFIX}/runs")
        return JsonAnswer(200, await self._carry_out(parts[1:], call))

    async def _carry_out(self, parts: list[str], call: ServiceCall) -> Json:
        """The operation of the address `parts` below `runs`."""
        offered: tuple[str, ...] = READ
        match parts:
            case []:
                offered = (*READ, "POST")
            case [_, "cancel"]:
                offered = ("POST",)
            case [_] | [_, "status" | "tasks"] | [_, "tasks", _]:
                pass
            case _:
                raise NotFound(f"no such address; runs are at {PREFIX}/runs")
        check_method(call.method, *offered)
        token = caller_token(self._settings, call.headers, call.query)
        await note_token(call.incoming.scope, token)
        found = await self._operate(token, parts, call)
        if token != self._settings.AnonymousToken:
            # The API accepted the token.
            note_known(call.incoming.scope)
        return found

    async def _operate(self, token: str, parts: list[str], call: ServiceCall) -> Json:
        secret = self._runs.secret
        match parts:
            case [] if call.method == "POST":
                return {"run_id": await self._create(token, call.incoming)}
            case []:
                page = listing.parse_page(call.query, listing.RUNS, secret=secret)
                return await self._runs.find(token, page)
            case [run]:
                return await self._runs.get(token, run)
            case [run, "status"]:
                return await self._runs.status(token, run)
            case [run, "tasks"]:
                page = listing.parse_page(call.query, listing.tasks_of(run), secret=secret)
                return await self._runs.tasks(token, run, page)
            case [run, "tasks", task]:
                return await self._runs.task(token, run, task)
        await self._runs.cancel(token, parts[0])
        return {"run_id": parts[0]}

    async def _create(self, token: str, incoming: Request) -> str:
        raw = await read_body(incoming, lambda: self._runs.check(token), most=MAX_BODY)
        fields, attachments = read_form(raw, incoming.headers.get("content-type", ""))
        run = read_run(fields, attachments.keys(), engine_version=self._engine_version)
        return await self._runs.create(token, run, attachments)

    async def _service_info(self, call: ServiceCall) -> Json:
        if self._settings.PublicServiceInfo and "authorization" not in call.headers:
            counts: JsonObject = {}
        else:
            token = caller_token(self._settings, call.headers, call.query)
            counts = await self._runs.counts(token)
        cluster, url = self._identity.cluster, self._identity.url
        return {
            "id": f"lading.{cluster}.wes",
            "name": f"Lading {cluster}",
            "type": {"group": "org.ga4gh", "artifact": "wes", "version": "1.1.0"},
            "organization": {"name": cluster, "url": url},
            "version": __version__,
            "workflow_type_versions": {TYPE: {"workflow_type_version": [*VERSIONS]}},
            "supported_wes_versions": ["1.1.0"],
            "supported_filesystem_protocols": [*PROTOCOLS],
            "workflow_engine_versions": {
                ENGINE: {"workflow_engine_version": [self._engine_version]}
            },
            "default_workflow_engine_parameters": [
                {"name": "max_run_time", "type": "integer", "default_value": "0"},
                {"name": "reuse", "type": "string", "default_value": "yes"},
            ],
            "system_state_counts": counts,
            "auth_instructions_url": url,
            "tags": {},
        }


def read_form(raw: bytes, content_type: str) -> tuple[dict[str, str], dict[str, bytes]]:
    """The texts of a form by name, and its attachments by path. Raises Malformed."""
    kind, parameters = media_type(content_type)
    fields: dict[str, str] = {}
    attachments: dict[str, bytes] = {}
    # Clients without attachments may send the short kind of form.
    if kind == "application/x-www-form-urlencoded":
        pairs = _short_form(raw)
    elif kind == http_head.FORM_MEDIA:
        pairs = [
            (file.name, file.filename, raw[file.start : file.end])
            for file in form_parts(raw, parameters.get("boundary", ""))
        ]
    else:
        raise Malformed(f"Content-Type: must be {http_head.FORM_MEDIA}")
    for name, filename, value in pairs:
        if name != _ATTACHMENT:
            _add_field(fields, name, value)
            continue
        path = attachment_path(filename or "")
        if path in attachments:
            raise InvalidRun([f"{_ATTACHMENT}: {path[:80]!r} is there twice"])
        attachments[path] = value
    check_attachments(attachments.keys())
    return fields, attachments


def _short_form(raw: bytes) -> list[tuple[str, str | None, bytes]]:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise Malformed(f"the form cannot be read: {error}") from None
    return [(name, None, value.encode()) for name, value in pairs]


def _add_field(fields: dict[str, str], name: str, value: bytes) -> None:
    if name in fields:
        raise InvalidRun([f"{name[:80]}: is there twice"])
    try:
        fields[name] = value.decode()
    except UnicodeDecodeError:
        raise InvalidRun([f"{name[:80]}: is not UTF-8 text"]) from None


def _refusal(error: LadingError) -> JsonAnswer:
    status, headers = refusal_head(error, "runs")
    text = " ".join(error.message.split())
    return JsonAnswer(status, {"msg": text, "status_code": status}, headers)
