"""States of a dispatcher's jobs, from submissions, looks at the queue and the completion hook.

Rules:

- A job that was submitted is alive until a look that *began* after the submission does not show it,
  and the batch system, asked about that job by its id, does not show it alive either. A failed look
  changes nothing.
- While it is not known whether a submission succeeded, the job counts as alive; the next look that
  shows it decides, or the next two that do not.
- A job that was lost and queued again (same id) counts as ended: its first run may still be alive
  on a node that the batch system cannot see, and the job's script runs nothing the second time.
  `clean` cancels the queued job.
- An ended job stays ended: late rows about it are ignored. But a controller that was killed may use
  an id again: the answer to a submission proves that the id is the new job's, and the fate of a job
  counts for the container in its mark alone.
- A job that will never start counts as ended, too; `clean` cancels it.
- A further job for a container that has one is a stray, from a submission that had been abandoned,
  and is cancelled.
- A job is cancelled as well if its hook reported its end and the queue still shows it ten times
  later: a killed controller forgets the ends of its last moments, and keeps the resources of ended
  jobs.

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from lading.core.errors import Failure
from lading.core.scheduling import slurm_nice
from lading.dispatch.fleet import LookUp, SupervisorProcess
from lading.dispatch.fleets.batch.batch_system import JobPhase, QueueRow, owner

# Looks after which a job that has ended is no longer to be shown as running.
_UNNOTICED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of one container. `id` is "" while it is not known; `since`: only a look with a
    larger number proves that it is gone."""

    uuid: str
    system: str
    id: str = ""
    array: str = ""
    since: int = 0
    phase: JobPhase = JobPhase.WAITING
    reason: str = ""
    node: str = ""
    nice: int = slurm_nice.INITIAL
    priority: int = 0
    is_movable: bool = False
    lost: bool = False
    fate: str = ""
    failure: Failure = Failure.INFRASTRUCTURE
    pending: bool = False
    doubted: bool = False
    """The job has no id, and one look has not shown it."""

    @property
    def alive(self) -> bool:
        """Whether it waits or runs, as far as is known."""
        return self.phase is not JobPhase.ENDED

    @property
    def process(self) -> SupervisorProcess:
        """The job as a process of the fleet's view."""
        where = f"{self.system} node {self.node}" if self.node else self.system
        waiting = self.phase is JobPhase.WAITING
        return SupervisorProcess(
            where,
            alive=self.alive,
            waiting=waiting,
            note=self._note(),
            fate=self.fate,
            failure=self.failure,
        )

    def _note(self) -> str:
        if not self.id or self.phase is JobPhase.ENDED:
            return ""
        if self.phase is JobPhase.RUNNING:
            return (
                f"Started by {self.system} as job {self.id} on {self.node}; being prepared."
                if self.node
                else ""
            )
        why = f" ({self.reason})" if self.reason not in ("", "None") else ""
        return f"Waiting in {self.system} as job {self.id}{why}."


class BatchJobs:
    """Table of the jobs of one dispatcher in the batch system of that name."""

    def __init__(self, token: str, system: str) -> None:
        self._token = token
        self._system = system
        self._jobs: dict[str, Job] = {}
        self._over: dict[str, int] = {}
        self._strays: list[str] = []
        self._look = 0

    def get(self, uuid: str) -> Job | None:
        """The job of a container."""
        return self._jobs.get(uuid)

    def processes(self) -> dict[str, SupervisorProcess]:
        """The supervisor process of each container in this table, by the uuid of the container."""
        return {uuid: job.process for uuid, job in self._jobs.items()}

    def count(self, phase: JobPhase) -> int:
        """Number of jobs in a phase."""
        return sum(job.phase is phase for job in self._jobs.values())

    def begin_look(self) -> int:
        """The number of a look at the queue that begins now."""
        self._look += 1
        return self._look

    def submitting(self, uuid: str) -> None:
        """Note that a submission is under way."""
        self._jobs[uuid] = self._new(uuid, pending=True)

    def submitted(self, uuid: str, id: str) -> None:
        """Note that a submission succeeded."""
        self._settle(uuid, id=id)

    def unsure(self, uuid: str) -> None:
        """Note that the outcome of a submission is unknown: the next look decides."""
        self._settle(uuid, id="")

    def refused(self, uuid: str) -> None:
        """Note that a submission failed."""
        self._jobs.pop(uuid, None)

    def _settle(self, uuid: str, *, id: str) -> None:
        job = self._jobs.get(uuid)
        if job is not None:
            self._jobs[uuid] = replace(job, id=job.id or id, pending=False, since=self._look)
            # The batch system may use a number again.
            self._over.pop(id, None)

    def missing(self, rows: Iterable[QueueRow], look: int) -> list[Job]:
        """The jobs that have ended, if this look is right."""
        # A cut row still has its owner, in its first words.
        shown = {row.job for row in rows if owner(row, token=self._token) is not None}
        alive = (job for job in self._jobs.values() if job.alive and job.id and not job.pending)
        # A look that began before the submission was answered does not have the job yet.
        return [job for job in alive if job.since < look and job.id not in shown]

    def observe(
        self, rows: Iterable[QueueRow], look: int, *, unsettled: Collection[str] = ()
    ) -> None:
        """Update the states from a look. It says nothing about the `unsettled` containers."""
        row_by_uuid = self._sort(rows, look)
        for uuid in dict.fromkeys((*self._jobs, *row_by_uuid)):
            before = self._jobs.get(uuid) or self._new(uuid)
            if uuid in row_by_uuid or uuid not in unsettled:
                self._jobs[uuid] = self._step(before, row_by_uuid.get(uuid), look)

    def _sort(self, rows: Iterable[QueueRow], look: int) -> dict[str, QueueRow]:
        """The row of each container; jobs that ended before and are still there become strays."""
        row_by_uuid: dict[str, QueueRow] = {}
        named = set()
        for row in rows:
            uuid = owner(row, token=self._token)
            if uuid is None or row.phase is JobPhase.ENDED:
                continue
            named.add(row.job)
            if row.job not in self._over:
                self._choose(row_by_uuid, uuid, row)
            # The queue shows a job for some seconds after its end. One that is there much longer
            # was reported as ended by mistake: it is cancelled.
            elif not row.is_ending and look - self._over[row.job] >= _UNNOTICED:
                self._strays.append(row.job)
                self._over[row.job] = look
        # Jobs that the batch system has forgotten are dropped here too.
        self._over = {job: since for job, since in self._over.items() if job in named}
        return row_by_uuid

    def of(self, ids: Iterable[str]) -> list[Job]:
        """The living ones among these jobs."""
        job_ids = set(ids)
        return [job for job in self._jobs.values() if job.id in job_ids and job.alive]

    def finish(self, ids: Iterable[str]) -> bool:
        """Learn from the completion hook that these jobs have ended. Returns whether any was
        alive.
        """
        news = self.of(ids)
        for job in news:
            self._jobs[job.uuid] = replace(job, phase=JobPhase.ENDED)
            self._over.setdefault(job.id, self._look)
        return bool(news)

    def explain(self, rows: Iterable[QueueRow]) -> None:
        """Learn why jobs ended."""
        for row in rows:
            uuid = owner(row, token=self._token)
            job = self._jobs.get(uuid) if uuid is not None else None
            if job is None or job.id != row.job or row.phase is not JobPhase.ENDED:
                continue
            if not job.alive and not job.fate:
                where = f" on {row.node}" if row.node else ""
                why = f"{row.state}, {row.reason}" if row.reason else row.state
                fate = f"{self._system} job {job.id}{where}: {row.end} ({why})."
                self._jobs[job.uuid] = replace(job, fate=fate, failure=row.failure)

    def unexplained(self, most: int) -> list[str]:
        """Ids of waiting jobs without a reason, `most` at most."""
        waiting = (job for job in self._jobs.values() if job.phase is JobPhase.WAITING)
        return [job.id for job in waiting if job.id and not job.reason][:most]

    def note_reasons(self, reasons: Mapping[str, str]) -> None:
        """Note why jobs wait, by their ids."""
        for uuid, job in self._jobs.items():
            if job.phase is JobPhase.WAITING and job.id in reasons:
                self._jobs[uuid] = replace(job, reason=reasons[job.id])

    def drop(self, uuid: str) -> None:
        """Forget a job that has ended."""
        job = self._jobs.pop(uuid, None)
        if job is not None and job.id:
            self._over.setdefault(job.id, self._look)

    def take_strays(self) -> list[str]:
        """Take the jobs to cancel, each once."""
        strays, self._strays = self._strays, []
        return strays

    def waiting(self, look: LookUp) -> list[slurm_nice.PendingJob]:
        """The waiting jobs with the ranks of their containers, an array as one while its tasks are
        wanted about equally.
        """
        groups: dict[str, list[tuple[Job, int]]] = {}
        for job in self._jobs.values():
            if job.phase is not JobPhase.WAITING or not job.id or not job.is_movable:
                continue
            container = look(job.uuid)
            if container is not None and not container.final:
                rank = slurm_nice.wanted(container.priority, container.created_at)
                groups.setdefault(job.array or job.id, []).append((job, rank))
        pending = []
        for base, members in groups.items():
            # One order for the whole array, as long as one nice value suits all of its tasks.
            kinds = {(rank >> slurm_nice.BUCKET, job.nice) for job, rank in members}
            if len(kinds) == 1:
                job, rank = max(members, key=lambda member: member[1])
                pending.append(
                    slurm_nice.PendingJob(id=base, rank=rank, priority=job.priority, nice=job.nice)
                )
            else:
                pending += [
                    slurm_nice.PendingJob(
                        id=job.id, rank=rank, priority=job.priority, nice=job.nice
                    )
                    for job, rank in members
                ]
        return pending

    def _choose(self, row_by_uuid: dict[str, QueueRow], uuid: str, row: QueueRow) -> None:
        tracked, chosen = self._jobs.get(uuid), row_by_uuid.get(uuid)
        # Two jobs for a container: the answer to the first submission was lost, and it was
        # made again. The unknown one is cancelled, so that the container runs once.
        replaced = tracked is not None and not tracked.pending and tracked.id not in ("", row.job)
        if replaced or (chosen is not None and chosen.job != row.job):
            self._strays.append(row.job)
        else:
            row_by_uuid[uuid] = row

    def _step(self, job: Job, row: QueueRow | None, look: int) -> Job:
        if not job.alive:
            return job
        if row is None:
            if job.pending or job.since >= look:
                return job
            return (
                replace(job, phase=JobPhase.ENDED)
                # Without an id the submission may have failed: two looks in a row have to miss the
                # job.
                if job.id or job.doubted
                else replace(job, doubted=True)
            )
        # Its first run may have changed something already: the container ends as with a failed
        # node, and a retry gets a job of its own.
        if row.restarts or (job.phase is JobPhase.RUNNING and row.phase is JobPhase.WAITING):
            fate = (
                f"{self._system} job {row.job}: its node failed or it was sent back to"
                f" {self._system}'s queue; it is not run twice."
            )
            return self._lose(job, row, fate, Failure.NODE)
        if row.is_stuck:
            fate = f"{self._system} job {row.job}: {row.end} ({row.state})."
            return self._lose(job, row, fate, row.failure)
        return replace(
            job,
            id=row.job,
            array=row.array,
            phase=row.phase,
            # A reason that was asked for holds until the job starts.
            reason=row.reason or (job.reason if row.phase is JobPhase.WAITING else ""),
            node=row.node,
            nice=row.nice,
            priority=row.priority,
            is_movable=row.is_movable,
        )

    def _lose(self, job: Job, row: QueueRow, fate: str, failure: Failure) -> Job:
        return replace(job, id=row.job, phase=JobPhase.ENDED, lost=True, fate=fate, failure=failure)

    def _new(self, uuid: str, *, pending: bool = False) -> Job:
        return Job(uuid=uuid, system=self._system, pending=pending)
