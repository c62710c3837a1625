"""Results that are withdrawn from reuse, and the results made from them."""

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
    """The result of a request, and the equal results of other runs, which would be reused in its
    place. Raises NotFound if it has no container.
    """
    container_uuid = request["container_uuid"]
    if not container_uuid:
        raise NotFound(f"{request['uuid']}: has no container, so there is no result to withdraw")
    evidence = await api.action("containers", container_uuid, "evidence", method="GET")
    twins = [
        replay["container_uuid"]
        for replay in evidence["replays"]
        if replay["equal"] and replay["container_uuid"]
    ]
    return await _results(api, [container_uuid, *twins])


async def withdrawn_results(api: ApiClient, request: Record) -> list[AffectedResult]:
    """The withdrawn result of a request, and those of other runs of the same command that were
    withdrawn with it: for the same reason, with the same output. Raises NotFound if it has none.
    """
    container_uuid = request["container_uuid"]
    own = await api.get("containers", container_uuid) if container_uuid else {}
    if not own.get("withdrawn_at"):
        raise NotFound(f"{request['uuid']}: its result is not withdrawn")
    filters = [[name, "=", own[name]] for name in ("output", "withdrawn_reason")]
    twins: list[str] = []
    async for rows in api.pages("containers", filters=filters, size=_PAGE):
        twins += (
            str(row["uuid"])
            for row in rows
            if row["withdrawn_at"] and all(row[name] == own[name] for name in _RECIPE)
        )
    return await _results(api, [container_uuid, *twins])


async def results_from(api: ApiClient, pdh: str) -> list[AffectedResult]:
    """The results of all containers that had a content as their image or as an input, as far as
    the caller can read them.
    """
    used = await api.action("collections", pdh, "used_by", method="GET")
    uuids = [
        key
        for key, user in used.items()
        if is_uuid(key)
        and infix_of(key) == Infix.CONTAINER
        and user["state"] == "Complete"
        and pdh in _contents(user)
    ]
    return await _results(api, uuids)


async def made_from(api: ApiClient, results: Iterable[AffectedResult]) -> list[AffectedResult]:
    """The results that were made from other results, directly or through further steps, as far as
    the caller can read them.
    """
    origins = list(results)
    given_uuids = {result.container["uuid"] for result in origins}
    derived: dict[str, None] = {}
    outputs = {result.container["output"]: None for result in origins}
    for pdh in outputs:
        # Any command may leave nothing: the empty output says nothing of where it is from.
        if not pdh or pdh == EMPTY_PDH:
            continue
        try:
            used = await api.action("collections", pdh, "used_by", method="GET")
        except NotFound:
            continue
        containers = (key for key in used if is_uuid(key) and infix_of(key) == Infix.CONTAINER)
        derived |= dict.fromkeys(key for key in containers if key not in given_uuids)
    return await _results(api, list(derived))


async def change_all(
    api: ApiClient, results: Iterable[AffectedResult], *, reason: str, own: bool = False
) -> tuple[list[AffectedResult], list[AffectedResult]]:
    """Withdraw results, or restore them if `reason` is empty; with `own` for requests of the caller
    alone. Returns the changed results, and the ones that the caller may not change.
    """
    done, refused = [], []
    body: Record = {"own": True} if own else {}
    for result in results:
        uuid = result.container["uuid"]
        try:
            if reason:
                await api.action("containers", uuid, "withdraw", body={**body, "reason": reason})
            else:
                await api.action("containers", uuid, "restore", body=body)
        # A conflict: another user has withdrawn it.
        except (Conflict, Forbidden):
            refused.append(result)
        else:
            done.append(result)
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
    return [container["container_image"], *(mount.get("portable_data_hash") for mount in mounts)]
