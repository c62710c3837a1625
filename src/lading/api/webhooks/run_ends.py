"""Events about the ends of runs, for the webhooks that ask for them.

No record changes when a run ends: its state is derived from its steps. So a server looks at the
runs that webhooks name, whenever their requests have changed, and writes a log row for an end that
was not told yet. That row and the note that it was told are one transaction: a server that ends
before it looks again later, and after it the row is delivered as any other. Source:
docs/spec/webhooks, section Ends of runs.
"""

from __future__ import annotations

from typing import Final

from lading.api.events import audit
from lading.api.resources.runs.reading import run_now
from lading.api.services import ApiServices
from lading.core.quantities import parse_time
from lading.core.records.log_rows import LogRowType
from lading.core.records.record_types import GROUPS
from lading.core.runs import attempts
from lading.core.runs.run_ends import ToldEnd, end_line, next_end, settling_seconds
from lading.core.runs.states import RunState
from lading.store import records, run_ends
from lading.store.database import Transaction
from lading.store.run_ends import WatchedRun

_NEVER: Final = 3600.0
_SHOWN: Final = (
    "attempt", "state", "counts", "began_at", "ended_at", "cost", "note",
)  # fmt: skip


class RunEndTeller:
    """Tells the ends of runs. It keeps when each was looked at, so that a run costs one look-up of
    an index while nothing changes.
    """

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._marks: dict[str, tuple[str, str]] = {}

    async def look(self) -> float:
        """Tell the ends that were not told yet; the seconds until the next look."""
        async with self._services.database.reading() as tx:
            watched = await run_ends.watched(tx)
        self._marks = {
            run.uuid: self._marks[run.uuid] for run in watched if run.uuid in self._marks
        }
        left = _NEVER
        for run in watched:
            mark = (run.changed_at, run.steps_changed_at)
            if self._marks.get(run.uuid) == mark:
                continue
            seconds = await self._examine(run)
            if seconds > 0:
                left = min(left, seconds)
            else:
                self._marks[run.uuid] = mark
        return left

    async def _examine(self, run: WatchedRun) -> float:
        """Tell the end of a run, if it has one to tell; the seconds until it counts, 0 for no
        further look before a change.
        """
        async with self._services.database.reading() as tx:
            end, seconds = await self._judge(tx, run)
        if end is None:
            return max(0.0, seconds)
        # Looked at again: another server of the database may have told it.
        async with self._services.database.writing(aside=True) as tx:
            end, seconds = await self._judge(tx, run)
            if end is not None:
                await run_ends.keep(tx, run.uuid, end)
                if end.number:
                    await self._tell(tx, run.uuid, end)
        return seconds

    async def _judge(self, tx: Transaction, run: WatchedRun) -> tuple[ToldEnd | None, float]:
        """The end to be told and the seconds until it counts, 0 for now. An end from before the
        first webhook has the number 0: it is kept, and not told.
        """
        project = await records.get(tx, GROUPS, run.uuid)
        if project is None or not attempts.is_run(project["properties"]):
            return None, 0.0
        attempt, totals, shown = await run_now(tx, project)
        told = await run_ends.find(tx, run.uuid)
        end = next_end(told, attempt, totals.counts, RunState(shown["state"]))
        if end is None:
            return None, 0.0
        changed_at = max(run.steps_changed_at, attempt.ended_at or "")
        if told is None and changed_at < run.asked_at:
            return ToldEnd(
                attempt=end.attempt, number=0, state=end.state, finished=end.finished
            ), 0.0
        passed = self._services.clock.time() - parse_time(changed_at)
        left = settling_seconds(attempt) - passed.total_seconds()
        return (None, left) if left > 0 else (end, 0.0)

    async def _tell(self, tx: Transaction, uuid: str, end: ToldEnd) -> None:
        project = await records.get(tx, GROUPS, uuid)
        assert project is not None, "it was read in this transaction"
        _, _, shown = await run_now(tx, project)
        told = {**{name: shown[name] for name in _SHOWN}, "number": end.number}
        properties = {
            "new_attributes": {"name": project["name"], "state": end.state},
            "run": told,
            # Events have all properties of a row with a text.
            "text": end_line(told),
        }
        summary = f"end of the run {project['name']}: {end.state}"
        await audit.note(tx, self._services, project, LogRowType.RUN_END, summary, properties)
