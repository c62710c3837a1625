"""Finds the handler of a path and method, from the record types and a few further paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from lading.api.container_access import shell_sessions
from lading.api.documents import descriptions, discovery, public
from lading.api.events import event_stream, timers
from lading.api.http import ApiCall, ApiResponse
from lading.api.logins import openid_login
from lading.api.resources import (
    cancellations,
    collections,
    container_endings,
    container_requests,
    container_results,
    containers,
    credentials,
    dispatching,
    evidence,
    groups,
    health,
    lineage,
    links,
    log_rows,
    machines,
    progress,
    repositories,
    service_records,
    webhooks,
    workflows,
)
from lading.api.resources.accounts import agreements, quotas, shares, tokens, user_merging, users
from lading.api.resources.runs import batches as runs_batches
from lading.api.resources.runs import reading as runs_reading
from lading.api.resources.runs import writing as runs_writing
from lading.core.errors import Forbidden
from lading.core.protocols.forwarding_claims import Purpose
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.record_types import RECORDS
from lading.core.records.schema import RecordAction, RecordType, Scope

Handler = Callable[[ApiCall], Awaitable[ApiResponse]]
PREFIX: Final = "/arvados/v1/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """A handler and the checks before it.

    `open` needs no token, `anyone` no active user; `raw` has a body that is not JSON. `dispatch`:
    the tokens of dispatchers may make it, as far as their scopes and the container allow. `claims`:
    another server may forward such a call, with a signed claim in place of a token. `shows` is the
    record type of an answer that is one record: `select` picks from its attributes. `name` stands
    for the route in metrics and traces: the path, or the record type and the action.
    """

    handler: Handler
    name: str = ""
    open: bool = False
    anyone: bool = False
    claims: Purpose | None = None
    raw: bool = False
    dispatch: bool = False
    shows: RecordType | None = None

    def check_caller(self, principal: Principal) -> None:
        """Refuse callers that may not make this call, whatever their scopes. Raises Forbidden."""
        if not self.anyone:
            access.check_active(principal)
        if principal.is_dispatcher and not self.dispatch:
            raise Forbidden("Forbidden: the token of a dispatcher may not make this call")


HANDLERS: Final[dict[str, Handler]] = {
    **users.HANDLERS,
    **user_merging.HANDLERS,
    **groups.HANDLERS,
    **tokens.HANDLERS,
    **collections.HANDLERS,
    **lineage.HANDLERS,
    **container_requests.HANDLERS,
    **runs_batches.HANDLERS,
    **cancellations.HANDLERS,
    **progress.HANDLERS,
    **containers.HANDLERS,
    **container_results.HANDLERS,
    **container_endings.HANDLERS,
    **evidence.HANDLERS,
    **repositories.HANDLERS,
    **runs_reading.HANDLERS,
    **runs_writing.HANDLERS,
    **links.HANDLERS,
    **log_rows.HANDLERS,
    **service_records.HANDLERS,
    **credentials.HANDLERS,
    **webhooks.HANDLERS,
    **quotas.HANDLERS,
    **workflows.HANDLERS,
}
_ANYONE: Final = frozenset({"users.current", "users.activate", "api_client_authorizations.current"})
_OPEN: Final = frozenset({"users.authenticate", "keep_services.accessible"})
_RAW: Final = frozenset({"containers.live"})
_DISPATCH: Final = frozenset(
    {
        "api_client_authorizations.current",
        "collections.create",
        "collections.update",
        "connect.gateway_tunnel",
        "containers.auth",
        "containers.current",
        "containers.finish",
        "containers.gateway_tunnel",
        "containers.get",
        "containers.list",
        "containers.live",
        "containers.lock",
        "containers.unlock",
        "containers.update",
        "logs.create",
        "users.current",
    }
)
"""The calls about records of dispatchers, and of Arvados' crunch-run, which has the token of its
dispatcher. Scopes alone would give them more: every action of a container, shells too.
"""
_CLAIMS: Final = {"container_requests.log": Purpose.LOG}


def _named(table: dict[str, dict[str, ApiRoute]]) -> dict[str, dict[str, ApiRoute]]:
    return {
        path: {method: replace(route, name=path) for method, route in methods.items()}
        for path, methods in table.items()
    }


_FIXED: Final = _named(
    {
        "/discovery/v1/apis/arvados/v1/rest": {
            "GET": ApiRoute(handler=discovery.get_discovery, open=True)
        },
        "/arvados/v1/openapi.json": {"GET": ApiRoute(handler=descriptions.get_openapi, open=True)},
        "/arvados/v1/config": {"GET": ApiRoute(handler=public.get_config, open=True)},
        "/arvados/v1/vocabulary": {"GET": ApiRoute(handler=public.get_vocabulary, open=True)},
        "/arvados/v1/user_agreements": {"GET": ApiRoute(handler=agreements.list_agreements)},
        "/arvados/v1/user_agreements/signatures": {
            "GET": ApiRoute(handler=agreements.list_signatures)
        },
        "/arvados/v1/user_agreements/sign": {"POST": ApiRoute(handler=agreements.sign_agreement)},
        "/arvados/v1/dispatch/statuses": {
            "POST": ApiRoute(handler=dispatching.put_statuses, dispatch=True)
        },
        "/arvados/v1/fair_shares": {"GET": ApiRoute(handler=shares.list_shares)},
        "/arvados/v1/health": {"GET": ApiRoute(handler=health.get_health)},
        "/arvados/v1/dispatch/machines": {
            "GET": ApiRoute(handler=machines.list_machines),
            "POST": ApiRoute(handler=machines.put_machines, dispatch=True),
        },
        "/arvados/v1/dispatch/machines/order": {"POST": ApiRoute(handler=machines.order_machine)},
        "/arvados/v1/openid_connect/begin": {
            "POST": ApiRoute(handler=openid_login.begin, open=True)
        },
        "/arvados/v1/openid_connect/finish": {
            "POST": ApiRoute(handler=openid_login.finish, open=True)
        },
        event_stream.PATH: {"GET": ApiRoute(handler=event_stream.get_events)},
        "/sys/trash_sweep": {"POST": ApiRoute(handler=timers.sweep_now)},
        "/status.json": {"GET": ApiRoute(handler=public.get_status, open=True)},
        "/debug.json": {"GET": ApiRoute(handler=public.get_debug, open=True)},
        "/metrics": {"GET": ApiRoute(handler=public.get_metrics, open=True)},
        "/_health/ping": {"GET": ApiRoute(handler=public.get_health, open=True)},
        "/_health/live": {"GET": ApiRoute(handler=health.get_liveness, open=True)},
        "/_health/ready": {"GET": ApiRoute(handler=health.get_readiness, open=True)},
        "/_health/all": {"GET": ApiRoute(handler=public.get_all_health, open=True)},
        "/": {"GET": ApiRoute(handler=public.get_root, open=True)},
        "/login": {name: ApiRoute(handler=public.get_login, open=True) for name in ("GET", "POST")},
        "/logout": {name: ApiRoute(handler=public.log_out, open=True) for name in ("GET", "POST")},
    }
)


class Routes:
    """Finds routes. A path names a collection of records, a record, an action on either, or a rest
    after an action.
    """

    def __init__(self) -> None:
        self._collection: dict[tuple[str, str], dict[str, ApiRoute]] = {}
        self._member: dict[tuple[str, str], dict[str, ApiRoute]] = {}
        self._with_subpath: set[tuple[str, str]] = set()
        for kind, action in actions():
            route = _route(kind, action)
            table = self._collection if action.scope is Scope.COLLECTION else self._member
            for method in _methods(action):
                table.setdefault((kind.plural, action.path), {})[method] = route
            if action.has_subpath:
                self._with_subpath.add((kind.plural, action.path))
        self._member["permissions", ""] = {
            "GET": ApiRoute(handler=links.get_permissions, name="permissions")
        }
        for plural in ("connect", "containers"):
            for name, handler in shell_sessions.HANDLERS.items():
                claims = Purpose.SHELL if name == "ssh" else None
                full = f"{plural}.{name}"
                is_dispatch = full in _DISPATCH
                self._member[plural, name] = {
                    "POST": ApiRoute(
                        handler=handler, claims=claims, name=full, dispatch=is_dispatch
                    ),
                    "GET": ApiRoute(handler=shell_sessions.gone, name=full),
                }

    def listed(self) -> Iterator[tuple[str, str, ApiRoute]]:
        """All routes as method, path and handler; `{uuid}` in a path is that of a record, `{rest}`
        further elements.
        """
        for path, methods in _FIXED.items():
            yield from ((method, path, route) for method, route in methods.items())
        for table, middle in ((self._collection, ""), (self._member, "/{uuid}")):
            for (plural, action), methods in table.items():
                below = f"/{action}" if action else ""
                rest = "/{rest}" if (plural, action) in self._with_subpath else ""
                path = f"{PREFIX}{plural}{middle}{below}{rest}"
                yield from ((method, path, route) for method, route in methods.items())

    def find(self, method: str, path: str) -> tuple[ApiRoute, str, str] | None:
        """The route with the uuid and the rest of the path, or None."""
        found = self._look(path)
        if found is None:
            return None
        methods, uuid, rest = found
        route = methods.get("GET" if method == "HEAD" else method)
        return (route, uuid, rest) if route else None

    def knows(self, path: str) -> bool:
        """Whether the path exists, with any method."""
        return self._look(path) is not None

    def _look(self, path: str) -> tuple[dict[str, ApiRoute], str, str] | None:
        if not path.startswith(PREFIX) or "//" in path:
            path = "/" + "/".join(segment for segment in path.split("/") if segment)
        fixed = _FIXED.get(path)
        if fixed is not None:
            return fixed, "", ""
        if not path.startswith(PREFIX):
            return None
        plural, _, tail = path[len(PREFIX) :].rstrip("/").partition("/")
        if not tail or (plural, tail) in self._collection:
            methods = self._collection.get((plural, tail))
            return (methods, "", "") if methods else None
        uuid, _, tail = tail.partition("/")
        action, _, subpath = tail.partition("/")
        methods = self._member.get((plural, action))
        if methods is None or (tail != action and (plural, action) not in self._with_subpath):
            return None
        return methods, uuid, subpath


def actions() -> Iterator[tuple[RecordType, RecordAction]]:
    """All actions of all record types."""
    for kind in RECORDS:
        for action in kind.actions:
            yield kind, action


def _route(kind: RecordType, action: RecordAction) -> ApiRoute:
    name = f"{kind.plural}.{action.name}"
    return ApiRoute(
        handler=HANDLERS[name],
        name=name,
        anyone=name in _ANYONE,
        raw=name in _RAW,
        open=name in _OPEN,
        dispatch=name in _DISPATCH,
        claims=_CLAIMS.get(name),
        shows=kind if action.answer == "" else None,
    )


def _methods(action: RecordAction) -> tuple[str, ...]:
    if action.has_subpath and action.method == "GET":
        return ("GET", "PROPFIND")
    return ("PUT", "PATCH") if action.method == "PUT" else (action.method,)
