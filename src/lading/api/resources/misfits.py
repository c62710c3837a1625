"""Containers that no dispatcher can ever run: their clients are warned in `runtime_status` while
they wait.

A dispatcher names those that none of its workers could hold for a while. Another dispatcher may be
able to run them, so that the server warns only where all that say anything about a container say
so, and takes a warning back otherwise.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lading.api.http import Call
from lading.api.transaction import UnitOfWork
from lading.core.containers import lifecycle
from lading.core.containers.container import Container, State
from lading.core.errors import Invalid
from lading.core.records.record_types import CONTAINERS
from lading.core.scheduling.wait_reasons import misfit
from lading.store import containers, records

_MOST_MISFITS: Final = 10_000


async def warn(call: Call, reported: Collection[str]) -> None:
    """Warn the clients of waiting containers that no dispatcher can ever run, and take back what
    holds no more.

    `reported`: the containers about which the caller says anything. Those that it has named in
    `misfits` for a while fit no worker of its own; another dispatcher may be able to run them.
    Raises Invalid.
    """
    misfits = call.params.get("misfits") or []
    if (
        not isinstance(misfits, list)
        or len(misfits) > _MOST_MISFITS
        or not all(isinstance(one, str) for one in misfits)
    ):
        raise Invalid(f"misfits: must be a list of at most {_MOST_MISFITS} uuids of containers")
    services = call.services
    async with services.database.reading() as tx:
        warned = await containers.warned(tx, reported)
        wanted: dict[str, str] = {}
        for uuid in {*misfits, *warned}:
            text = misfit(await services.statuses.about(tx, uuid, services.now()))
            if text != warned.get(uuid, ""):
                wanted[uuid] = text
    for uuid, text in sorted(wanted.items()):
        async with services.database.writing() as tx:
            row = await records.get(tx, CONTAINERS, uuid)
            if row is not None and row["state"] == State.QUEUED:
                unit = UnitOfWork(tx, services, user_uuid=services.system_user)
                await unit.change_container(row, lifecycle.warn(Container.from_record(row), text))
                await unit.settle()
