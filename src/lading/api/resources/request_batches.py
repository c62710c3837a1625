"""Many container requests in one call: `POST container_requests/batch`.

The items are created in their order, in transactions of many. An item names an earlier one of the
same call as `#N`, N counted from 0: in `depends_on`, and as the `container_request` of an `output`
mount. So a whole pipeline is one call. Source: docs/spec/api, section Batches of requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lading.api.http import ApiCall, ApiResponse, show
from lading.api.resources.container_requests import add_to, look_up_trees
from lading.api.resources.repositories import Trees
from lading.api.transaction import UnitOfWork
from lading.core.containers.priority import bind_siblings
from lading.core.errors import Invalid, LadingError, Malformed, RequestError
from lading.core.ids import Infix
from lading.core.quantities import later
from lading.core.records.filters import check_select
from lading.core.records.record_types import REQUESTS
from lading.core.records.schema import JSON, Record

MAX_ITEMS: Final = 1000
"""Requests of one call; an atomic one holds the write lock for some 2 s then."""
_TOGETHER: Final = 50
"""Requests of a transaction of a call that is not atomic: about 0.1 s of the write lock."""

_APART: Final = 1e-6
"""Seconds between the creation times of two items."""


@dataclass(slots=True)
class _Item:
    """One request of the call: its number, its uuid, its attributes with uuids in place of `#N`."""

    number: int
    uuid: str
    given: Record
    trees: Trees | None


async def create_requests(call: ApiCall) -> ApiResponse:
    """Create the requests; the answer has a record for each, in their order, or `errors`.

    Unless `atomic` is false, the first one that cannot be created makes the whole call fail, with
    the number of the item, and nothing is stored.
    """
    select = check_select(call.params.get("select"), REQUESTS)
    is_atomic = call.params.get("atomic", True)
    if not isinstance(is_atomic, bool):
        raise Malformed("atomic: must be true or false")
    items = await _items(call)
    answers: list[JSON]
    if is_atomic:
        answers = [show(REQUESTS, row, select) for row in await _create_all(call, items)]
    else:
        answers = []
        for start in range(0, len(items), _TOGETHER):
            some = items[start : start + _TOGETHER]
            answers += [
                show(REQUESTS, one, select) if isinstance(one, dict) else _refusal(one)
                for one in await _create_possible(call, some)
            ]
    return ApiResponse(body={"kind": "lading#containerRequestBatch", "items": answers})


def _refusal(error: LadingError) -> JSON:
    return {"errors": [error.message], "status": error.status}


async def _items(call: ApiCall) -> list[_Item]:
    sent = call.params.get("container_requests")
    if not isinstance(sent, list) or not all(isinstance(one, dict) for one in sent):
        raise Malformed("container_requests: must be an array of objects of attributes")
    if not 1 <= len(sent) <= MAX_ITEMS:
        raise Invalid(f"container_requests: has {len(sent)} items; 1 to {MAX_ITEMS} are possible")
    uuids = [call.services.new_uuid(Infix.REQUEST) for _ in sent]
    items = []
    for number, given in enumerate(sent):
        with _naming(number):
            if isinstance(given.get("properties"), dict):
                call.services.vocabulary.check(given["properties"])
            bound = bind_siblings(given, uuids[:number])
            trees = await look_up_trees(call, bound)
        items.append(_Item(number, uuids[number], bound, trees))
    return items


async def _create_all(call: ApiCall, items: Sequence[_Item]) -> list[Record]:
    """Create all items in one transaction; raises the error of the first that is refused."""
    made = []
    async with call.services.database.writing() as tx:
        unit = UnitOfWork(tx, call.services, user_uuid=call.caller.user_uuid)
        siblings: set[str] = set()
        for one in items:
            # Equal times would leave the order of their containers to chance.
            unit.now = later(unit.now, _APART)
            with _naming(one.number):
                made.append(await add_to(unit, call, one.given, one.trees, one.uuid, siblings))
            siblings.add(one.uuid)
        await unit.settle()
    return made


async def _create_possible(call: ApiCall, items: Sequence[_Item]) -> list[Record | LadingError]:
    """Create these items if possible together, else each by itself; a record or the error of
    each.
    """
    try:
        return list(await _create_all(call, items))
    except RequestError as error:
        if len(items) == 1:
            return [error]
    return [(await _create_possible(call, [one]))[0] for one in items]


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Name the item in the message of an error."""
    try:
        yield
    except RequestError as error:
        error.args = (f"#{number}: {error.message}", *error.args[1:])
        raise


HANDLERS: Final = {"container_requests.batch": create_requests}
