"""The run that an address names, with its steps, for all pages of one run."""

from __future__ import annotations

from dataclasses import dataclass

from lading.client.api import Record
from lading.client.request_states import REUSED
from lading.client.run_records import reading
from lading.client.run_records.reading import RunReference
from lading.core.errors import NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.request_status import RequestStatus
from lading.core.runs.parameters import parse_number
from lading.core.runs.step_groups import RunStep
from lading.process.concurrency import together
from lading.web.runs import rows
from lading.web.runs.rows import RunRow
from lading.web.visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run and the attempt that is shown; `query` keeps the attempt in addresses, "" for the
    latest.
    """

    record: Record
    row: RunRow
    steps: list[RunStep]
    attempt: int | None

    @property
    def uuid(self) -> str:
        """The uuid of its project, or of the request of its runner."""
        return str(self.record["uuid"])

    @property
    def place(self) -> str:
        """The address of its page."""
        return f"/ui/runs/{self.uuid}"

    @property
    def query(self) -> str:
        """The attempt as a part of addresses."""
        return f"attempt={self.attempt}" if self.attempt else ""

    @property
    def is_live(self) -> bool:
        """Whether steps of the run wait or run."""
        counts = self.record["counts"]
        return bool(counts["waiting"] + counts["running"]) or self.record["state"] == "running"


def reference_of(visit: Visit) -> RunReference:
    """The run and the attempt in the address. Raises NotFound, Invalid."""
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.GROUP) and not is_uuid(uuid, Infix.REQUEST):
        raise NotFound(f"{uuid[:80]!r} is no uuid of a run; see the list of runs")
    return RunReference(uuid=uuid, attempt=parse_number(visit.query("attempt")))


async def read_view(visit: Visit) -> RunView:
    """The run of the address with its steps. Raises NotFound, Invalid."""
    reference = reference_of(visit)
    records: list[Record] = []
    steps: list[RunStep] = []

    async def read_record() -> None:
        records.append(await reading.read_run(visit.api, reference))

    async def read_steps() -> None:
        steps.extend(await reading.read_steps(visit.api, reference))

    await together(read_record(), read_steps())
    [row] = await rows.make_rows(visit, records)
    return RunView(record=records[0], row=row, steps=steps, attempt=reference.attempt)


def shown_step_state(step: RunStep) -> str:
    """The state of a step in words: `failed 3`, `done, reused`."""
    state = str(step.state)
    if step.state == "failed" and step.exit_code:
        state += f" {step.exit_code}"
    state += ", submitted again" if step.is_repeated else ""
    # One that waits for the container of an earlier request has no result yet.
    is_live = step.state in (RequestStatus.WAITING, RequestStatus.RUNNING)
    return state + (REUSED if step.is_reused and not is_live else "")
