"""The model server beside the real handlers: each call goes to both, and records must stay equal.

Callers get the answer of the real handlers. A difference is a fault of one of the two; `Drift`
names the record, the attribute and both values.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from lading.api.events.listeners import LogEvent
from lading.client.record_events import RecordEvent
from lading.core.containers.attempts.spot import RUN_TIME
from lading.core.errors import LadingError
from tests.simulation.handlers import HandlerServer
from tests.simulation.rules import CORRECT, ServerRules
from tests.simulation.server import Fields, ModelServer
from tests.simulation.tables import ADMIN_TOKEN, DISPATCHER_TOKENS, token_text

_CONTAINER: Final = (
    "state",
    "priority",
    "locked_by_uuid",
    "lock_count",
    "auth_uuid",
    "supervisor_auth_uuid",
    "output",
    "log",
    "exit_code",
    "created_at",
    "started_at",
    "finished_at",
    "cost",
    "subrequests_cost",
    "runtime_status",
)
_REQUEST: Final = (
    "state",
    "priority",
    "container_uuid",
    "container_count",
    "container_count_max",
    "attempted_container_uuids",
    "requesting_container_uuid",
    "created_at",
    "cumulative_cost",
)
_KEPT: Final = ("log_uuid", "output_uuid")
_NESTED: Final = frozenset({"runtime_status", "attempted_container_uuids"})
_FIRST_TOKENS: Final = frozenset({ADMIN_TOKEN, *DISPATCHER_TOKENS})


class Drift(AssertionError):
    """The model server and the real handlers differ."""


class ComparedServer(ModelServer):
    """A model server beside the real handlers, whose answers and events count."""

    def __init__(
        self,
        clock: Callable[[], float],
        complete: Callable[[Coroutine[Any, Any, Any]], Any],
        rules: ServerRules = CORRECT,
    ) -> None:
        super().__init__(clock, rules)
        self._real = HandlerServer(clock, complete, self._relay)
        self._is_modelled = False

    def call(
        self,
        token: str,
        method: str,
        path: str,
        body: Fields | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer of the real handlers.

        Raises their refusal; Drift if the model server answers or stores something else.
        """
        answer, fault = _outcome(lambda: self._real.call(token, method, path, body, params))
        self._is_modelled = True
        try:
            modelled, refused = _outcome(
                lambda: ModelServer.call(self, token, method, path, body, params),
            )
        finally:
            self._is_modelled = False
        what = f"{method} {path}"
        if (fault and fault.status) != (refused and refused.status):
            raise Drift(f"{what}: the handlers say {_said(fault)}, the model says {_said(refused)}")
        if fault is not None:
            raise fault
        if method == "GET" and path == "containers":
            is_ordered = "order" in (params or {})
            _compare_items(what, answer["items"], modelled["items"], is_ordered=is_ordered)
        elif method != "GET":
            self._compare(what)
        return answer

    def text_of(self, token_uuid: str) -> str:
        """A token as its holder sends it; the server derives the secrets of containers' tokens."""
        if token_uuid in _FIRST_TOKENS:
            return token_text(token_uuid)
        return self._real.text_of(token_uuid)

    def publish(self, event: RecordEvent) -> None:
        """Send an event of the real handlers; those of the model are not sent."""
        if not self._is_modelled:
            super().publish(event)

    def close(self) -> None:
        """Drop the database of the real handlers."""
        self._real.close()

    def _relay(self, event: LogEvent) -> None:
        self.publish(
            RecordEvent(
                event_type=event.event_type,
                object_uuid=event.object_uuid,
                object_kind=event.object_kind or "",
                properties=event.properties,
            )
        )

    def _compare(self, what: str) -> None:
        records = self.records
        self._compare_table(what, "containers", _CONTAINER, (), records.containers)
        self._compare_table(what, "container_requests", _REQUEST, _KEPT, records.requests)
        now = self.now()
        alive = "SELECT uuid, expires_at FROM api_client_authorizations"
        found = self._real.rows(alive)
        tokens = {uuid for uuid, until in found if until is None or str(until) > now}
        _equal(f"{what}: tokens", sorted(map(str, tokens - _FIRST_TOKENS)), sorted(records.tokens))

    def _compare_table(
        self,
        what: str,
        table: str,
        names: Sequence[str],
        kept: Sequence[str],
        modelled: Mapping[str, Any],
    ) -> None:
        columns = ", ".join(("uuid", *names, *(f"{name} IS NOT NULL" for name in kept)))
        found = self._real.rows(f"SELECT {columns} FROM {table}")
        _equal(f"{what}: {table}", sorted(str(row[0]) for row in found), sorted(modelled))
        for uuid, *values in found:
            model = modelled[str(uuid)]
            for name, value in zip((*names, *kept), values, strict=True):
                expected, found_value = getattr(model, name), value
                if name in kept:
                    expected, found_value = expected is not None, bool(value)
                elif name in _NESTED:
                    found_value = msgspec.json.decode(str(value))
                if found_value != expected:
                    _equal(f"{what}: {name} of {uuid!r}", found_value, expected)


def _outcome(act: Callable[[], Any]) -> tuple[Any, LadingError | None]:
    try:
        return act(), None
    except LadingError as error:
        return None, error


def _said(fault: LadingError | None) -> str:
    return "yes" if fault is None else f"{fault.status} {fault.message!r}"


def _compare_items(
    what: str,
    found: list[Fields],
    modelled: list[Fields],
    *,
    is_ordered: bool,
) -> None:
    """Compare the selected attributes. The handlers add kind and etag."""
    if not is_ordered:
        found, modelled = (sorted(items, key=itemgetter("uuid")) for items in (found, modelled))
    _equal(what, [one["uuid"] for one in found], [one["uuid"] for one in modelled])
    for real, model in zip(found, modelled, strict=True):
        shown = {name: _modelled(real.get(name)) for name in model}
        _equal(f"{what}: {real['uuid']}", shown, model)


def _modelled(value: object) -> object:
    """A value without the run time that the handlers have learned; the model learns none."""
    if isinstance(value, dict) and RUN_TIME in value:
        return {name: one for name, one in value.items() if name != RUN_TIME}
    return value


def _equal(what: str, real: object, modelled: object) -> None:
    if real != modelled:
        raise Drift(f"{what}: the handlers have {real!r}, the model has {modelled!r}")
