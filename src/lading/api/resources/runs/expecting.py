"""When runs are expected to end: the steps, those of an earlier attempt, and the usual times of
their programs are read; `core.runs.expected_end` decides.

The usual times are those of the caller's own containers, for an administrator those of the user who
committed the step, as for the expectations of a container (`api.expectations`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from lading.core.quantities import format_time, parse_time
from lading.core.records.access import Principal
from lading.core.records.schema import Record
from lading.core.runs.expected_end import expect_end
from lading.core.runs.step_groups import RunStep, read_step
from lading.core.scheduling import expected_times
from lading.store import run_times
from lading.store.database import Transaction
from lading.store.runs import steps
from lading.store.runs.steps import RunScope

MOST_EXPECTED_STEPS: Final = 1000
"""Steps of a run with an expected end: each reading of the run reads all of them."""


async def expected_end(
    tx: Transaction,
    scope: RunScope,
    earlier: RunScope | None,
    caller: Principal,
    *,
    now: str,
    is_over: bool,
) -> str | None:
    """When a run is expected to end, as an API timestamp; None where that is not known. `earlier`
    is the scope of an earlier attempt.
    """
    rows = await _find(tx, scope)
    if not 0 < len(rows) <= MOST_EXPECTED_STEPS:
        return None
    before = await _find(tx, earlier) if earlier is not None else []
    end = expect_end(
        await _read(tx, rows),
        # Half of a long attempt would say too little.
        await _read(tx, before) if len(before) <= MOST_EXPECTED_STEPS else [],
        await _usual(tx, rows, caller),
        now=parse_time(now).timestamp(),
        is_over=is_over,
    )
    return None if end is None else format_time(datetime.fromtimestamp(end, UTC))


async def _find(tx: Transaction, scope: RunScope) -> list[Record]:
    return await steps.find(tx, tx.dialect, scope, limit=MOST_EXPECTED_STEPS + 1, after=None)


async def _read(tx: Transaction, rows: Iterable[Record]) -> list[RunStep]:
    rows = list(rows)
    uuids = dict.fromkeys(row["container_uuid"] for row in rows if row["container_uuid"])
    contents = await steps.contents_read(tx, list(uuids))
    return [read_step({**row, "inputs": contents.get(row["container_uuid"], [])}) for row in rows]


async def _usual(tx: Transaction, rows: Iterable[Record], caller: Principal) -> dict[str, float]:
    """The usual seconds of the programs of steps, by uuid."""
    tools = {
        str(row["uuid"]): (
            str(row["committed_by_uuid"] if caller.is_admin else caller.user_uuid),
            expected_times.program_key(row["command"]),
        )
        for row in rows
        if row["command"] and row["committed_by_uuid"]
    }
    times = await run_times.find_all(tx, set(tools.values()))
    usual = {tool: expected_times.usual_seconds(seconds) for tool, seconds in times.items()}
    return {
        uuid: seconds for uuid, tool in tools.items() if (seconds := usual.get(tool)) is not None
    }
