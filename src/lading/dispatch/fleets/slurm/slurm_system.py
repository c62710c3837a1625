"""Slurm as a batch system: a job is submitted by `sbatch`, ordered by nice values, and listed by
`squeue`.

- SIGTERM to the script (`scancel --batch`) asks a job to end.
- Its completion hook stands in place of `strigger`, which only Slurm's own user may set and which
  is many seconds late.

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Final

from lading.core.scheduling import slurm_nice
from lading.dispatch.fleets.batch.batch_system import JobRequest, NodeShape, QueueRow
from lading.dispatch.fleets.batch.job_script import ScriptDialect
from lading.dispatch.fleets.slurm.sbatch_arguments import Templates
from lading.dispatch.fleets.slurm.slurm_commands import Slurm, read_sinfo, read_squeue
from lading.dispatch.fleets.slurm.slurm_gpus import NO_TYPES, SlurmGpus

# Starts an annex on the node of a rank (`supervisor.gang.remote_rank_client`); its input and output
# are those of srun.
_REACH: Final = (
    "rank=$1; shift; "
    'exec srun --overlap --nodes=1 --ntasks=1 --relative="$rank" --kill-on-bad-exit=1 --quiet '
    '${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} '
    'sh -c \'exec "$@" --annex "$SLURM_LAUNCH_NODE_IPADDR"\' sh "$@"'
)
SLURM_DIALECT: Final = ScriptDialect(
    system="Slurm",
    section="SLURM",
    restarted='[ "${SLURM_RESTART_COUNT:-0}" != 0 ]',
    index="${SLURM_ARRAY_TASK_ID:-0}",
    gpus="${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-"
    "${ROCR_VISIBLE_DEVICES:-${ZE_AFFINITY_MASK:-}}}}",
    job="${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_JOB_ID:+_$SLURM_ARRAY_TASK_ID}",
    reach=_REACH,
)
"""The words of Slurm in job scripts."""


class SlurmSystem:
    """Implements BatchSystem."""

    name = "Slurm"
    dialect = SLURM_DIALECT
    # `squeue` shows a job for some seconds after its end; one that it does not know has ended.
    accounting_delay = 0.0
    most_asked = 100_000

    def __init__(
        self,
        slurm: Slurm,
        *,
        templates: Templates | None = None,
        gpu_types: SlurmGpus = NO_TYPES,
        spread: int = slurm_nice.DEFAULT_SPREAD,
    ) -> None:
        self._slurm = slurm
        self._templates = templates or Templates()
        self._gpu_types = gpu_types
        self._spread = spread

    async def submit(self, request: JobRequest) -> list[str]:
        """Submit a job, or an array. Raises JobRefused, Unavailable, OutcomeUnknown."""
        count = len(request.uuids)
        arguments = self._templates.fill(
            request.uuids[0],
            request.container,
            spread=request.spread,
            gpus=self._gpu_types.choose(request.container.gpu, request.node_gpus),
        )
        array = [f"--array=0-{count - 1}"] if count > 1 else []
        job = await self._slurm.sbatch(
            # Output of the script would need a place on each node; the supervisor reports through
            # the API.
            ["--output=/dev/null", "--chdir=/", *arguments, *array, f"--comment={request.mark}"],
            request.script,
        )
        return [f"{job}_{index}" for index in range(count)] if array else [job]

    async def poll(self) -> list[QueueRow]:
        """The jobs of the dispatcher's users that have not ended. Raises Unavailable."""
        return read_squeue(await self._slurm.squeue())

    async def ended(self, jobs: Sequence[str]) -> list[QueueRow]:
        """Rows of these jobs, ended or not; none for jobs that Slurm has forgotten. Raises
        Unavailable.
        """
        return read_squeue(await self._slurm.ended(jobs))

    async def cancel(self, jobs: Sequence[str], number: Signals) -> None:
        """Cancel waiting jobs, signal the scripts of running ones; KILL cancels all. Raises
        Unavailable.
        """
        if number is Signals.SIGKILL:
            await self._slurm.scancel(jobs)
            return
        # A waiting job has no script to signal: it is cancelled. Of a running one the script alone
        # gets the signal and passes it to the supervisor, which saves output and log.
        await self._slurm.scancel(jobs, "--state=pending")
        name = number.name.removeprefix("SIG")
        for state in ("running", "suspended"):
            await self._slurm.scancel(jobs, "--batch", f"--signal={name}", f"--state={state}")

    async def reorder(self, jobs: Sequence[slurm_nice.PendingJob]) -> None:
        """Order waiting jobs by their nice values, all with one `scontrol`. Raises Unavailable."""
        changes = slurm_nice.renice(jobs, spread=self._spread)
        if changes:
            await self._slurm.renice(changes)

    async def explain(self, jobs: Sequence[str]) -> Mapping[str, str]:
        """Nothing: `squeue` gives the reasons."""
        del jobs
        return {}

    async def shapes(self) -> tuple[NodeShape, ...]:
        """The kinds of nodes that can be used, each once. Raises Unavailable."""
        return read_sinfo(await self._slurm.sinfo(), self._gpu_types)
