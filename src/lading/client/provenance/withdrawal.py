"""Results that are withdrawn from reuse, and what was made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from lading.client.api import ApiClient, Record
from lading.client.request_states import shown_command
from lading.core.errors import Conflict, Forbidden, NotFound
from lading.core.ids import EMPTY_PDH, Infix, infix_of, is_uuid

# The values of one filter, as in `request_tree`.
_RECIPE: Final = ("command", "container_image", "mounts", "environment", "cwd")
_PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedResult:
    """A container with one of its requests, if the caller can read one."""

    container: Record
    request: Record | None

    @property
    def name(self) -> str:
        """The name of the request, or the command."""
        named = (self.request or {}).get("name")
        return str(named or shown_command(self.container))


async def results_of_request(api: ApiClient, request: Record) -> list[AffectedResult]:
    """The result of a request, and those of other runs that gave the same: one of these would be
    reused in its place. Raises NotFound if it has no container.
    """
    held = request["container_uuid"]
    if not held:
        raise NotFound(f"{request['uuid']}: has no container, so there is no result to withdraw")
    evidence = await api.action("containers", held, "evidence", method="GET")
    twins = [
        one["container_uuid"]
        for one in evidence["replays"]
        if one["equal"] and one["container_uuid"]
    ]
    return await _results(api, [held, *twins])


async def withdrawn_results(api: ApiClient, request: Record) -> list[AffectedResult]:
    """The withdrawn result of a request, and those of other runs of the same command that were
    withdrawn with it: for the same reason, with the same output. Raises NotFound if it has none.
    """
    held = request["container_uuid"]
    own = await api.get("containers", held) if held else {}
    if not own.get("withdrawn_at"):
        raise NotFound(f"{request['uuid']}: its result is not withdrawn")
    filters = [[name, "=", own[name]] for name in ("output", "withdrawn_reason")]
    twins: list[str] = []
    async for rows in api.pages("containers", filters=filters, size=_PAGE):
        twins += (
            str(one["uuid"])
            for one in rows
            if one["withdrawn_at"] and all(one[name] == own[name] for name in _RECIPE)
        )
    return await _results(api, [held, *twins])


async def results_from(api: ApiClient, pdh: str) -> list[AffectedResult]:
    """The results of all containers that had a content as their image or as an input, as far as
    the caller can read them.
    """
    used = await api.action("collections", pdh, "used_by", method="GET")
    uuids = [
        key
        for key, one in used.items()
        if is_uuid(key)
        and infix_of(key) == Infix.CONTAINER
        and one["state"] == "Complete"
        and pdh in _contents(one)
    ]
    return await _results(api, uuids)


async def made_from(api: ApiClient, results: Iterable[AffectedResult]) -> list[AffectedResult]:
    """The results that were made from other results, directly or through further steps, as far as
    the caller can read them.
    """
    given = list(results)
    known = {one.container["uuid"] for one in given}
    found: dict[str, None] = {}
    outputs = {one.container["output"]: None for one in given}
    for pdh in outputs:
        # Any command may leave nothing: the empty output says nothing of where it is from.
        if not pdh or pdh == EMPTY_PDH:
            continue
        try:
            used = await api.action("collections", pdh, "used_by", method="GET")
        except NotFound:
            continue
        containers = (key for key in used if is_uuid(key) and infix_of(key) == Infix.CONTAINER)
        found |= dict.fromkeys(key for key in containers if key not in known)
    return await _results(api, list(found))


async def change_all(
    api: ApiClient, results: Iterable[AffectedResult], *, reason: str, own: bool = False
) -> tuple[list[AffectedResult], list[AffectedResult]]:
    """Withdraw results, or restore them if `reason` is empty; with `own` for requests of the caller
    alone. Returns the changed results, and the ones that the caller may not change.
    """
    done, refused = [], []
    body: Record = {"own": True} if own else {}
    for one in results:
        uuid = one.container["uuid"]
        try:
            if reason:
                await api.action("containers", uuid, "withdraw", body={**body, "reason": reason})
            else:
                await api.action("containers", uuid, "restore", body=body)
        # A conflict: another user has withdrawn it.
        except (Conflict, Forbidden):
            refused.append(one)
        else:
            done.append(one)
    return done, refused


async def _results(api: ApiClient, uuids: list[str]) -> list[AffectedResult]:
    rows = await _listed(api, "containers", "uuid", uuids)
    containers = {row["uuid"]: row for row in rows}
    requests: dict[str, Record] = {}
    for row in await _listed(api, "container_requests", "container_uuid", uuids):
        requests.setdefault(row["container_uuid"], row)
    return [
        AffectedResult(container=containers[uuid], request=requests.get(uuid))
        for uuid in dict.fromkeys(uuids)
        if uuid in containers
    ]


async def _listed(api: ApiClient, plural: str, field: str, values: list[str]) -> list[Record]:
    found: list[Record] = []
    for start in range(0, len(values), _PAGE):
        some = [field, "in", values[start : start + _PAGE]]
        async for rows in api.pages(plural, filters=[some], size=_PAGE):
            found += rows
    return found


def _contents(container: Record) -> list[Any]:
    mounts = (container["mounts"] or {}).values()
    return [container["container_image"], *(one.get("portable_data_hash") for one in mounts)]
