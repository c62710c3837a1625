"""Grid Engine as a batch system: `qsub`, `qstat`, `qacct`, `qalter`, `qdel`, `qhost`.

- A job asks for its end by USR2 (`-notify`): `qdel` sends it, and KILL when the `notify` time of
  the queue has passed, a minute by default. There is no way to signal the script of a job alone.
- Priorities are -1023 to 0 for a user; jobs of one priority run in the order of their submission.
- `qacct` knows of an end some seconds late, and is called once for each job.
- Directives in the script are not read (`-C ""`). Scripts are kept where every user of a node
  reads them, so they hold no tokens.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Final

from lading.core.errors import Unavailable
from lading.core.resources import Resources
from lading.core.scheduling.job_levels import changed_levels, job_level
from lading.core.scheduling.slurm_nice import PendingJob
from lading.dispatch.fleets.batch.argument_templates import ArgumentTemplates
from lading.dispatch.fleets.batch.batch_system import JobRequest, NodeShape, QueueRow
from lading.dispatch.fleets.batch.job_script import ScriptDialect
from lading.dispatch.fleets.batch.node_shapes import KnownNode, node_shapes
from lading.dispatch.fleets.batch.programs import (
    FailureSigns,
    OutcomeUnknown,
    ProgramRunner,
    Programs,
    last_line,
)
from lading.dispatch.fleets.batch_adapters.gridengine_answers import (
    SYSTEM,
    Host,
    job_name,
    read_accounts,
    read_hosts,
    read_jobs,
    read_reasons,
)

ARGUMENTS: Final = (
    "-N %N", "-pe {environment} %C", "-l mem_free=%MM", "-l h_rt=%S", "-q %P", "-p %L",
)  # fmt: skip
GPU_ARGUMENTS: Final = ("-l {gpus}=%G",)
# No directives of the script, no second start, no files; USR2 before KILL.
_ALWAYS: Final = (
    "-C", "", "-S", "/bin/sh", "-r", "n", "-notify", "-wd", "/", "-o", "/dev/null", "-j", "y",
)  # fmt: skip
_LOWEST, _HIGHEST = -1023, 0
_SIGNS: Final = FailureSigns(
    away=(
        "can't contact", "cannot contact", "unable to contact", "got select timeout",
        "got send error", "connection refused", "connect failure", "qmaster", "commlib error",
        "resource temporarily unavailable", "can't resolve", "endpoint is not unique",
    ),
    unsure=("got read error", "got send timeout", "got read timeout", "no answer"),
    gone=("does not exist", "is already in deletion"),
    quota=("jobs are allowed per", "too many jobs"),
)  # fmt: skip
_DIALECT: Final = ScriptDialect(
    system=SYSTEM,
    section="Batch",
    restarted='[ "${RESTARTED:-0}" != 0 ]',
    job="$JOB_ID",
    signals=("TERM", "USR2"),
    # USR1 tells of a suspension.
    ignored=("USR1",),
    is_private=False,
)


class GridEngine:
    """Implements BatchSystem. `user` is that whose jobs are the dispatcher's; `scratch` is bytes of
    each node's disk, `gpus` the complex that counts GPUs.
    """

    name = SYSTEM
    dialect = _DIALECT
    most_asked = 1

    def __init__(
        self,
        run: ProgramRunner,
        templates: ArgumentTemplates,
        *,
        user: str,
        timeout: float,
        scratch: int,
        gpus: str = "gpu",
        accounting_delay: float = 60.0,
    ) -> None:
        self._programs = Programs(run, timeout=timeout, signs=_SIGNS)
        self._templates = templates
        self._user = user
        self._scratch = scratch
        self._gpus = gpus
        self._most_gpus: dict[str, int] = {}
        """The largest number of GPUs that each host has had free: consumables show what is left."""
        self.accounting_delay = accounting_delay

    async def submit(self, request: JobRequest) -> list[str]:
        """Submit a job. Raises JobRefused, QuotaReached, Unavailable, OutcomeUnknown."""
        arguments = self._templates.fill(
            request.uuids[0],
            request.container,
            name=job_name(request.mark),
            level=job_level(request.rank, lowest=_LOWEST, highest=_HIGHEST),
        )
        answer = await self._programs.submit(
            ("qsub", "-terse", *_ALWAYS, *arguments), request.script
        )
        # Lines before the id are warnings of the site's submission verifier.
        job = answer.strip().splitlines()[-1].strip() if answer.strip() else ""
        if not job.isdecimal():
            raise OutcomeUnknown(f"qsub: no job id in its answer {answer.strip()[:80]!r}")
        return [job]

    async def poll(self) -> list[QueueRow]:
        """The jobs of the user that have not ended. Raises Unavailable."""
        return read_jobs(await self._programs.ask("qstat", "-u", self._user, "-pri", "-xml"))

    async def ended(self, jobs: Sequence[str]) -> list[QueueRow]:
        """The accounts of these jobs, as far as there are any. Raises Unavailable."""
        return [row for job in jobs for row in await self._account(job)]

    async def _account(self, job: str) -> list[QueueRow]:
        result = await self._programs.try_to_ask("qacct", "-j", job)
        # Without any account there is no file of them.
        unknown = ("not found", "no jobs running since startup")
        if result.code and not any(words in result.err.lower() for words in unknown):
            raise Unavailable(f"qacct: {last_line(result)}")
        return read_accounts(result.out) if not result.code else []

    async def cancel(self, jobs: Sequence[str], number: Signals) -> None:
        """Delete jobs; the script of a running one gets USR2 first. Raises Unavailable."""
        del number
        await self._programs.change("qdel", ",".join(jobs))

    async def reorder(self, jobs: Sequence[PendingJob]) -> None:
        """Set the priorities of waiting jobs that differ. Raises Unavailable."""
        for level, names in changed_levels(jobs, lowest=_LOWEST, highest=_HIGHEST).items():
            await self._programs.change("qalter", "-p", str(level), ",".join(names))

    async def explain(self, jobs: Sequence[str]) -> Mapping[str, str]:
        """The reasons of the scheduler, where the site has it give them. Raises Unavailable."""
        result = await self._programs.try_to_ask("qstat", "-j", ",".join(jobs))
        return read_reasons(result.out)

    async def shapes(self) -> tuple[NodeShape, ...]:
        """The kinds of hosts with their queues. Raises Unavailable."""
        hosts = read_hosts(await self._programs.ask("qhost", "-q", "-F", "-xml"))
        return node_shapes(SYSTEM, [node for host in hosts for node in self._nodes(host)])

    def _nodes(self, host: Host) -> list[KnownNode]:
        free = int(host.resources.get(self._gpus, 0))
        gpus = max(free, self._most_gpus.get(host.name, 0))
        self._most_gpus[host.name] = gpus
        # A job goes to one queue, so the slots of queues do not add up.
        return [
            KnownNode(
                name=host.name,
                capacity=Resources(queue.slots, host.ram, self._scratch, gpus),
                partitions=frozenset({queue.queue}),
            )
            for queue in host.queues
            if queue.is_open and queue.slots
        ]
