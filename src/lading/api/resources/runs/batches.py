"""Many container requests in a call, as `POST container_requests/batch`.

The items are created in their order, in transactions of many. An item names an earlier one of the
same call as `#N`, N counted from 0: in `depends_on`, and as the `container_request` of an `output`
mount. So a whole pipeline is one call; with `run` it is a run, which is begun in the same
transaction.

Source: docs/spec/api, section Batches of requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lading.api.http import ApiCall, ApiResponse
from lading.api.mounts import mount_contents
from lading.api.resources.container_requests import add_to, look_up_trees
from lading.api.resources.runs.writing import as_step, begin_within
from lading.api.serializer import show
from lading.api.server.vocabulary import VOCABULARY
from lading.api.transaction import UnitOfWork
from lading.core.containers.mounting.git_trees import GitTrees
from lading.core.containers.priority import bind_siblings
from lading.core.errors import Invalid, LadingError, Malformed, RequestError
from lading.core.ids import Infix
from lading.core.quantities import later
from lading.core.records.container_types import REQUESTS
from lading.core.records.filters import check_select
from lading.core.records.schema import JSON, Record

MAX_ITEMS: Final = 1000
"""Requests of one call; an atomic one holds the write lock for some 2 s then."""
# Requests of a transaction of a call that is not atomic: about 0.1 s of the write lock.
_TOGETHER: Final = 50

# Seconds between the creation times of two items.
_APART: Final = 1e-6


@dataclass(slots=True)
class _Item:
    """One request of the call: its number, its uuid, its attributes with uuids in place of `#N`."""

    number: int
    uuid: str
    attributes: Record
    trees: GitTrees | None


async def create_requests(call: ApiCall) -> ApiResponse:
    """Create the requests; the answer has a record for each, in their order, or `errors`.

    Unless `atomic` is false, the first one that cannot be created makes the whole call fail, with
    the number of the item, and nothing is stored.
    """
    select = check_select(call.params.get("select"), REQUESTS)
    is_atomic = call.params.get("atomic", True)
    if not isinstance(is_atomic, bool):
        raise Malformed("atomic: must be true or false")
    run = call.params.get("run")
    if run is not None and not (is_atomic and isinstance(run, dict)):
        raise Invalid("run: must be an object, and a call with it is atomic")
    items = await _items(call)
    answers: list[JSON]
    begun: Record = {}
    if is_atomic:
        rows, begun = await _create_all(call, items, run)
        answers = [show(REQUESTS, row, select) for row in rows]
    else:
        answers = []
        for start in range(0, len(items), _TOGETHER):
            some = items[start : start + _TOGETHER]
            answers += [
                show(REQUESTS, outcome, select) if isinstance(outcome, dict) else _refusal(outcome)
                for outcome in await _create_possible(call, some)
            ]
    body: Record = {"kind": "lading#containerRequestBatch", "items": answers}
    return ApiResponse(body={**body, "run": begun} if begun else body)


def _refusal(error: LadingError) -> JSON:
    return {"errors": [error.message], "status": error.status}


async def _items(call: ApiCall) -> list[_Item]:
    sent = call.params.get("container_requests")
    if not isinstance(sent, list) or not all(isinstance(attributes, dict) for attributes in sent):
        raise Malformed("container_requests: must be an array of objects of attributes")
    if not 1 <= len(sent) <= MAX_ITEMS:
        raise Invalid(f"container_requests: has {len(sent)} items; 1 to {MAX_ITEMS} are possible")
    uuids = [call.services.ids.new_uuid(Infix.REQUEST) for _ in sent]
    await mount_contents.look_up(
        call.services, call.caller, [attributes.get("mounts") for attributes in sent]
    )
    items = []
    for number, attributes in enumerate(sent):
        with _naming(number):
            if isinstance(attributes.get("properties"), dict):
                call.services.features[VOCABULARY].check(attributes["properties"])
            bound = bind_siblings(attributes, uuids[:number])
            trees = await look_up_trees(call, bound)
        items.append(_Item(number, uuids[number], bound, trees))
    return items


async def _create_all(
    call: ApiCall, items: Sequence[_Item], run: Record | None = None
) -> tuple[list[Record], Record]:
    """Create all items in one transaction, as steps of `run` if that is given: their rows, and the
    attempt that was begun. Raises the error of the first that is refused.
    """
    rows = []
    begun: Record = {}
    async with call.services.database.writing() as tx:
        if run is not None:
            begun = await begin_within(tx, call, run)
        unit = UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
        siblings: set[str] = set()
        for item in items:
            # Equal times would leave the order of their containers to chance.
            unit.now = later(unit.now, _APART)
            with _naming(item.number):
                attributes = as_step(item.attributes, begun) if begun else item.attributes
                rows.append(await add_to(unit, call, attributes, item.trees, item.uuid, siblings))
            siblings.add(item.uuid)
        await unit.settle()
    return rows, begun


async def _create_possible(call: ApiCall, items: Sequence[_Item]) -> list[Record | LadingError]:
    """Create these items if possible together, else each by itself; a record or the error of
    each.
    """
    try:
        rows, _ = await _create_all(call, items)
        return [*rows]
    except RequestError as error:
        if len(items) == 1:
            return [error]
    return [(await _create_possible(call, [item]))[0] for item in items]


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Name the item in the message of an error."""
    try:
        yield
    except RequestError as error:
        error.args = (f"#{number}: {error.message}", *error.args[1:])
        raise


HANDLERS: Final = {"container_requests.batch": create_requests}
