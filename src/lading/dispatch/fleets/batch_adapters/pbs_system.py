"""PBS Professional and OpenPBS as a batch system: `qsub`, `qstat`, `qalter`, `qsig`, `qdel`,
`pbsnodes`.

- `qsig` sends TERM to a running job, of which the supervisor gets one too. `qdel` sends TERM and,
  after the `kill_delay` of the server (10 s), KILL: so it ends waiting jobs, and others at KILL.
- Jobs that have ended are known while the server keeps its history (`job_history_enable`).
- Directives in the script are not read (`-C ""`). PBS keeps scripts where only their own user and
  root read them.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from signal import Signals
from typing import Final

from lading.core.errors import Unavailable
from lading.core.quantities import shorten
from lading.core.scheduling.job_levels import changed_levels, job_level
from lading.core.scheduling.planning import TrackedContainer
from lading.core.scheduling.slurm_nice import PendingJob
from lading.dispatch.fleets.batch.argument_templates import ArgumentTemplates
from lading.dispatch.fleets.batch.batch_system import JobPhase, JobRequest, NodeShape, QueueRow
from lading.dispatch.fleets.batch.job_script import ScriptDialect
from lading.dispatch.fleets.batch.node_shapes import node_shapes
from lading.dispatch.fleets.batch.programs import (
    FailureSigns,
    JobRefused,
    OutcomeUnknown,
    ProgramRunner,
    Programs,
    last_line,
)
from lading.dispatch.fleets.batch_adapters.pbs_answers import (
    SYSTEM,
    job_name,
    read_jobs,
    read_nodes,
    read_queues,
)

PBS_ARGUMENTS: Final = (
    "-N %N", "-l select=1:ncpus=%C:mem=%Mmb%g", "-l walltime=%S", "-q %P", "-p %L",
)  # fmt: skip
PBS_GPU_ARGUMENTS: Final[tuple[str, ...]] = ()
# No directives of the script, no second start, no files.
_ALWAYS: Final = ("-C", "", "-S", "/bin/sh", "-r", "n", "-j", "oe", "-o", "/dev/null", "-m", "n")
_LOWEST, _HIGHEST = -1024, 1023
_SIGNS: Final = FailureSigns(
    away=(
        "cannot connect to server", "connection refused", "no route to host", "errno=15010",
        "could not connect", "connection timed out", "communication failure", "server shutting",
        "resource temporarily unavailable",
    ),
    unsure=("protocol (asn.1) error", "end of file", "premature", "errno=15031"),
    gone=("unknown job id", "job has finished", "request invalid for state of job"),
    quota=("would exceed", "maximum number of jobs already", "per-user limit"),
)  # fmt: skip
_DIALECT: Final = ScriptDialect(
    system=SYSTEM,
    section="Batch",
    # PBS tells a script nothing of earlier starts; `-r n` forbids them.
    restarted="false",
    job="$PBS_JOBID",
)


class Pbs:
    """Implements BatchSystem. `user` is that whose jobs are the dispatcher's; `scratch` is bytes of
    each node's disk, `gpus` the resource that counts GPUs.
    """

    name = SYSTEM
    dialect = _DIALECT
    most_asked = 100

    def __init__(
        self,
        run: ProgramRunner,
        templates: ArgumentTemplates,
        *,
        user: str,
        timeout: float,
        scratch: int,
        gpus: str = "ngpus",
        accounting_delay: float = 60.0,
    ) -> None:
        self._programs = Programs(run, timeout=timeout, signs=_SIGNS)
        self._templates = templates
        self._user = user
        self._scratch = scratch
        self._gpus = gpus
        self._queues: frozenset[str] = frozenset()
        """The queues of the nodes that were seen last."""
        self.accounting_delay = accounting_delay

    async def submit(self, request: JobRequest) -> list[str]:
        """Submit a job. Raises JobRefused, JobQuotaReached, Unavailable, OutcomeUnknown."""
        arguments = self._templates.fill(
            request.uuids[0],
            self._with_one_queue(request.container),
            name=job_name(request.mark),
            level=job_level(request.rank, lowest=_LOWEST, highest=_HIGHEST),
        )
        answer = await self._programs.submit(("qsub", *_ALWAYS, *arguments), request.script)
        job = answer.strip()
        if not job.partition(".")[0].isdecimal():
            raise OutcomeUnknown(f"qsub: no job id in its answer {job[:80]!r}")
        return [job]

    def _with_one_queue(self, container: TrackedContainer) -> TrackedContainer:
        """The container with the first of its partitions that is a queue: a job has one
        destination. Raises JobRefused where none is.
        """
        if not container.partitions:
            return container
        # Behind "@" PBS reads another server, to which the script with its token would go.
        queues = (
            name
            for name in container.partitions
            if "@" not in name and (not self._queues or name in self._queues)
        )
        if (queue := next(queues, None)) is None:
            named = shorten(", ".join(container.partitions), 100)
            raise JobRefused(f"partitions {named}: no queue of PBS among them; name one")
        return replace(container, partitions=(queue,))

    async def poll(self) -> list[QueueRow]:
        """The jobs of the user that have not ended. Raises Unavailable."""
        answer = await self._programs.ask("qstat", "-f", "-F", "json")
        return read_jobs(answer, user=self._user)

    async def ended(self, jobs: Sequence[str]) -> list[QueueRow]:
        """Rows of these jobs, ended or not, as far as the server knows them. Raises Unavailable."""
        result = await self._programs.try_to_ask("qstat", "-x", "-f", "-F", "json", *jobs)
        # Of several ids it shows those that it knows, and fails for the others.
        if result.code and (self._programs.is_away(result) or not self._programs.is_gone(result)):
            raise Unavailable(f"qstat: {last_line(result)}")
        return read_jobs(result.out, user=self._user) if result.out.strip() else []

    async def cancel(self, jobs: Sequence[str], number: Signals) -> None:
        """Delete waiting jobs and signal running ones; KILL deletes all. Raises Unavailable."""
        deleted: Sequence[str] = jobs
        if number is not Signals.SIGKILL:
            rows = await self.ended(jobs)
            deleted = [row.job for row in rows if row.phase is JobPhase.WAITING]
            running = [row.job for row in rows if row.phase is JobPhase.RUNNING]
            if running:
                name = number.name.removeprefix("SIG")
                await self._programs.change("qsig", "-s", name, *running)
        if deleted:
            await self._programs.change("qdel", *deleted)

    async def reorder(self, jobs: Sequence[PendingJob]) -> None:
        """Set the priorities of waiting jobs that differ. Raises Unavailable."""
        for level, names in changed_levels(jobs, lowest=_LOWEST, highest=_HIGHEST).items():
            await self._programs.change("qalter", "-p", str(level), *names)

    async def explain(self, jobs: Sequence[str]) -> Mapping[str, str]:
        """Nothing: the comments of jobs give the reasons."""
        del jobs
        return {}

    async def shapes(self) -> tuple[NodeShape, ...]:
        """The kinds of nodes with the queues that start jobs. Raises Unavailable."""
        queues = read_queues(await self._programs.ask("qstat", "-Q", "-f", "-F", "json"))
        answer = await self._programs.ask("pbsnodes", "-a", "-F", "json")
        nodes = read_nodes(answer, queues=queues, gpus=self._gpus, scratch=self._scratch)
        self._queues = frozenset().union(*(node.partitions for node in nodes))
        return node_shapes(SYSTEM, nodes)
