"""The fleet of a batch system: each container is a job.

- Capacity comes from the kinds of nodes: each is a worker that queues for itself, so a container is
  handed over when some node can hold it, and the batch system decides when it starts.
- One look in each interval reports about all jobs. A slow one makes the interval longer; while the
  batch system does not answer, it is called less often, nothing is locked, and jobs that were alive
  count as alive. Containers that are already locked wait a little for an answer: each lock counts
  as an attempt, and attempts are limited.
- A batch system that takes no further job of this user gets none until one of its jobs has ended,
  or until a pause has passed.
- Containers that are alike and arrive together become one job array.
- Waiting jobs are kept in the order of the containers' priorities.
- Cancelling asks the supervisor to end by a signal to the job's script; a job that still waits is
  cancelled at once.
- The script is also the completion hook (`job_script`).

Source: docs/spec/dispatch, section Batch fleet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Self

from lading.core.containers.container import HELD
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.core.scheduling import slurm_nice
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.planning import FleetWorker, TrackedContainer
from lading.dispatch.fleet import FleetView, LookUp, StartRequest
from lading.dispatch.fleets.batch.batch_jobs import BatchJobs, Job
from lading.dispatch.fleets.batch.batch_settings import BatchSettings
from lading.dispatch.fleets.batch.batch_system import (
    BatchSystem,
    JobPhase,
    JobRequest,
    NodeShape,
    QueueRow,
    job_mark,
)
from lading.dispatch.fleets.batch.batcher import Batcher
from lading.dispatch.fleets.batch.job_script import Task, secret_assignments, write
from lading.dispatch.fleets.batch.job_secrets import put_secrets, remove_secret
from lading.dispatch.fleets.batch.programs import JobQuotaReached, JobRefused, OutcomeUnknown
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
# Job arrays that are submitted at a time: as many as commands run at a time.
_SUBMISSIONS = 3
# Commands that fail in a row before the batch system is taken not to be there.
_ILL = 3
# Questions about the ends of jobs in one look.
_MOST_QUESTIONS = 20
# Waiting jobs whose reasons are asked for at a time, and seconds between two such questions.
_MOST_EXPLAINED, _EXPLAINING_PERIOD = 100, 30.0


class BatchFleet:
    """Implements `Fleet`. Use as `async with`: leaving it leaves the jobs in the batch system."""

    def __init__(self, settings: BatchSettings, system: BatchSystem) -> None:
        self._settings = settings
        self._system = system
        self._jobs = BatchJobs(settings.token, system.name)
        self._shapes: tuple[NodeShape, ...] = ()
        self._is_known = False
        self._fault = ""
        """Error of the first look, until the batch system has answered once."""
        self._well = asyncio.Event()
        self._failures = 0
        self._look_up: LookUp = _nobody
        self._change = asyncio.Event()
        self._look_now = asyncio.Event()
        self._shapes_due = 0.0
        self._explaining_due = 0.0
        self._missed: dict[str, float] = {}
        """Since when jobs are neither in the queue nor in the accounts, by their ids."""
        self._full_until = 0.0
        """Until when the batch system is taken to accept no further job."""
        self._ended_job = asyncio.Event()
        self._starts = Batcher(
            self._submit, alike=_kind, most=max(1, settings.array_size), workers=_SUBMISSIONS
        )
        self._stops = Batcher(self._stop, alike=lambda stop: stop[1], most=100, workers=1)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve(), name=self._system.name)
        self._task.add_done_callback(lambda _: self._change.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            await cancel_all(self._task)
            self._task = None

    def set_lookup(self, look: LookUp) -> None:
        """Set the function that looks up priorities."""
        self._look_up = look

    def view(self) -> FleetView:
        """The present state."""
        # While the batch system does not answer no worker is shown, so that nothing is locked.
        workers = tuple(_worker(shape) for shape in self._shapes) if self._well.is_set() else ()
        waiting = self._jobs.count(JobPhase.WAITING)
        most = 0 if self._is_full() else max(0, self._settings.most_waiting - waiting)
        return FleetView(
            is_known=self._is_known,
            workers=workers,
            processes=self._jobs.processes(),
            most=most,
            trouble="" if self._is_known else self._fault,
        )

    async def changed(self) -> None:
        """Wait until the view may have changed. Raises the error that ended the tasks of the
        fleet.
        """
        await self._change.wait()
        self._change.clear()
        if self._task is not None and self._task.done():
            self._task.result()

    async def start(self, assignment: StartRequest) -> None:
        """Submit a job, alone or in an array. Raises Conflict, Unavailable, Refused."""
        if self._jobs.get(assignment.uuid) is not None:
            raise Conflict(f"{assignment.uuid}: it has a job in {self._system.name} already")
        # Noted before the first await: a second start of this container then raises Conflict.
        self._jobs.submitting(assignment.uuid)
        try:
            await self._starts.ask(assignment)
        # The batch may have been handed over already: only the next look can show it.
        except asyncio.CancelledError:
            self._jobs.unsure(assignment.uuid)
            raise
        finally:
            self._change.set()

    async def signal(self, uuid: str, number: Signals) -> None:
        """Cancel a waiting job, signal the script of a running one; KILL ends the job in every
        case.
        """
        job = self._jobs.get(uuid)
        if job is None or not job.alive:
            return
        # Nobody can signal a job without an id; the dispatcher tries again at its next step.
        if not job.id:
            raise Unavailable(f"{uuid}: its job is being submitted")
        await self._stops.ask((job.id, number))
        self._look_now.set()

    async def clean(self, uuid: str) -> None:
        """Forget a job that has ended; cancel it if it was queued again. Raises Conflict,
        Unavailable.
        """
        job = self._jobs.get(uuid)
        if job is None:
            return
        if job.alive:
            raise Conflict(f"{uuid}: its job {job.id or 'in the queue'} has not ended")
        if job.lost:
            await self._stops.ask((job.id, Signals.SIGKILL))
        await self._remove_secret(uuid)
        self._jobs.drop(uuid)
        self._change.set()

    async def _remove_secret(self, uuid: str) -> None:
        if self._settings.site.secrets:
            await asyncio.to_thread(remove_secret, self._settings.site.secrets, uuid)

    # Submitting and stopping.

    async def _submit(self, batch: Sequence[StartRequest]) -> None:
        # The tasks of an array start by index: the first in the queue's order gets index 0.
        ranked = sorted(batch, key=lambda start: _queue_rank(start.container), reverse=True)
        uuids = tuple(start.uuid for start in ranked)
        first = ranked[0].container
        spread = self._is_spread(first)
        site, dialect = self._settings.site, self._system.dialect
        tasks = [
            Task(start.uuid, start.token, start.container.need.vcpus, spread) for start in ranked
        ]
        secrets = secret_assignments(site, tasks, dialect)
        request = JobRequest(
            uuids=uuids,
            container=first,
            mark=job_mark(self._settings.token, uuids),
            rank=_queue_rank(first),
            script=write(site, tasks, dialect),
            spread=spread,
            node_gpus=self._gpus_for(first),
        )
        try:
            if secrets:
                await asyncio.to_thread(put_secrets, site.secrets, secrets)
            jobs = await self._submit_patiently(request)
        except (JobRefused, Unavailable) as error:
            unsure = isinstance(error, OutcomeUnknown)
            for uuid in uuids:
                (self._jobs.unsure if unsure else self._jobs.refused)(uuid)
                if not unsure:
                    await self._remove_secret(uuid)
            raise
        for uuid, job in zip(uuids, jobs, strict=True):
            self._jobs.submitted(uuid, job)
        event(_logger, "job submitted", job=jobs[0], containers=len(uuids), first=uuids[0])

    async def _submit_patiently(self, request: JobRequest) -> list[str]:
        """Submit, and again after failures that pass. Raises Refused, Unavailable,
        OutcomeUnknown.
        """
        until = asyncio.get_running_loop().time() + self._settings.patience
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await self._well.wait()
                    await self._wait_for_quota()
            except TimeoutError:
                raise Unavailable(
                    f"{self._system.name} takes no job at the moment; looking again soon."
                ) from None
            try:
                jobs = await self._system.submit(request)
            except JobQuotaReached as error:
                self._note_full(error)
            except Unavailable as error:
                self._ail(error)
                # Submitted again, such a job might run twice.
                if isinstance(error, OutcomeUnknown):
                    raise
            else:
                self._failures = 0
                return jobs

    def _is_full(self) -> bool:
        return asyncio.get_running_loop().time() < self._full_until

    def _note_full(self, error: JobQuotaReached) -> None:
        """Submit nothing before a job has ended, or a pause has passed."""
        self._full_until = asyncio.get_running_loop().time() + self._settings.longest_pause
        self._ended_job.clear()
        event(_logger, "no further job accepted", system=self._system.name, why=error)
        self._change.set()

    async def _wait_for_quota(self) -> None:
        while self._is_full():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._full_until):
                    await self._ended_job.wait()
                    self._full_until = 0.0
        self._change.set()

    def _gpus_for(self, container: TrackedContainer) -> tuple[Mapping[str, Gpu], ...]:
        shapes = (shape for shape in self._shapes if _worker(shape).takes(container.partitions))
        return tuple(shape.gpus for shape in shapes)

    def _is_spread(self, container: TrackedContainer) -> bool:
        workers = (
            worker for worker in map(_worker, self._shapes) if worker.takes(container.partitions)
        )
        return container.nodes > 1 and not any(
            container.need.fits(worker.capacity) for worker in workers
        )

    async def _stop(self, batch: Sequence[tuple[str, Signals]]) -> None:
        await self._system.cancel([job for job, _ in batch], batch[0][1])

    def _ail(self, error: LadingError) -> None:
        """Count a failed command: after several in a row nothing is submitted before a look
        succeeds again.
        """
        self._fault = f"{self._system.name} does not answer: {error.message}"
        if not self._is_known:
            self._change.set()
        # The refusal of one job does not mean that the batch system is unavailable.
        self._failures += isinstance(error, Unavailable)
        if self._failures >= _ILL and self._well.is_set():
            self._well.clear()
            event(_logger, f"{self._system.name} does not answer", why=error)
            self._change.set()

    # Looking.

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._starts.run(), name="submissions")
            tasks.create_task(self._stops.run(), name="cancellations")
            tasks.create_task(self._poll(), name="looks at the queue")
            tasks.create_task(self.watch_nodes(), name="looks at the nodes")
            if self._settings.site.hooks:
                tasks.create_task(
                    self._watch_hooks(Path(self._settings.site.hooks)), name="completion hooks"
                )

    async def _poll(self) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            # Cleared before the look: a request to look that arrives during it leads to another
            # one.
            self._look_now.clear()
            try:
                await self._look()
                failures = 0
            except Unavailable as error:
                failures += 1
                self._ail(error)
            await self._pause(
                self._settings.pause_after(loop.time() - began, failures=failures), failures
            )

    async def watch_nodes(self) -> None:
        """Learn of the nodes what is shown to people only; a fleet that can show them overrides
        this.
        """

    async def wait_until_well(self) -> None:
        """Wait until the batch system answers."""
        await self._well.wait()

    async def _pause(self, seconds: float, failures: int) -> None:
        try:
            async with asyncio.timeout(seconds):
                # A request for an earlier look counts only while the batch system answers: more
                # calls would make an overload worse.
                await (asyncio.Event() if failures else self._look_now).wait()
                # Several requests within a fraction of a second share one look.
                await asyncio.sleep(min(self._settings.poll_period, 0.2))
        except TimeoutError:
            return

    async def _look(self) -> None:
        number = self._jobs.begin_look()
        rows = await self._system.poll()
        if not self._is_known:
            # Before the first look there are no expected jobs by which an incomplete answer would
            # be noticed.
            rows += await self._system.poll()
        missing = [job for job in self._jobs.missing(rows, number) if not self._is_final(job.uuid)]
        fates, answered = await self._ask_about(missing)
        unsettled = self._unsettled(missing, fates, answered)
        alive = [row for row in fates if row.phase is not JobPhase.ENDED]
        before = self._count_alive()
        self._jobs.observe((*rows, *alive), number, unsettled=unsettled)
        if self._count_alive() < before:
            self._ended_job.set()
        self._jobs.explain(fates)
        await self._see_shapes()
        self._is_known = True
        self._failures = 0
        self._well.set()
        self._change.set()
        try:
            await self._tidy()
        except LadingError as error:
            # The next look finds the same work again.
            event(_logger, "jobs not put in order", why=error)

    def _count_alive(self) -> int:
        return self._jobs.count(JobPhase.WAITING) + self._jobs.count(JobPhase.RUNNING)

    async def _tidy(self) -> None:
        strays = self._jobs.take_strays()
        if strays:
            await self._system.cancel(strays, Signals.SIGKILL)
        waiting = self._jobs.waiting(self._look_up)
        if waiting:
            await self._system.reorder(waiting)
        now = asyncio.get_running_loop().time()
        unexplained = self._jobs.unexplained(_MOST_EXPLAINED)
        if unexplained and self._explaining_due <= now:
            self._explaining_due = now + _EXPLAINING_PERIOD
            self._jobs.note_reasons(await self._system.explain(unexplained))
            self._change.set()

    async def _ask_about(self, jobs: Sequence[Job]) -> tuple[list[QueueRow], set[str]]:
        """Fates of jobs that the queue does not show, though their containers have not ended, and
        the ids of the jobs about which there was an answer.

        A container is ended or run again for it: no single answer of the queue, cut or old, is
        enough for that.
        """
        ids, size = [job.id for job in jobs], self._system.most_asked
        questions = [ids[start : start + size] for start in range(0, len(ids), size)]
        turn = asyncio.Semaphore(_SUBMISSIONS)
        answers = await asyncio.gather(
            *(self._ask(question, turn) for question in questions[:_MOST_QUESTIONS])
        )
        fates = [row for rows in answers for row in rows or ()]
        return fates, {
            job
            for question, rows in zip(questions, answers, strict=False)
            if rows is not None
            for job in question
        }

    async def _ask(self, jobs: Sequence[str], turn: asyncio.Semaphore) -> list[QueueRow] | None:
        """Rows of these jobs, None if there is no answer."""
        try:
            async with turn:
                return await self._system.ended(jobs)
        except Unavailable as error:
            event(_logger, f"{self._system.name} does not report the states of jobs", why=error)
            return None

    def _unsettled(
        self, missing: Sequence[Job], fates: Sequence[QueueRow], answered: Collection[str]
    ) -> set[str]:
        """The containers of missing jobs about which this look says nothing: there was no answer,
        or the accounts may be late.
        """
        now = asyncio.get_running_loop().time()
        accounted = {row.job for row in fates}
        unaccounted = [job.id for job in missing if job.id not in accounted]
        self._missed = {id: self._missed.get(id, now) for id in unaccounted}
        return {
            job.uuid
            for job in missing
            if job.id not in accounted
            and (
                job.id not in answered or now - self._missed[job.id] < self._system.accounting_delay
            )
        }

    async def _see_shapes(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._shapes_due <= now or not self._well.is_set():
            try:
                self._shapes = await self._system.shapes()
            except Unavailable as error:
                if not self._shapes:
                    raise
                # The old kinds of nodes serve until the next look asks again.
                event(_logger, "the former kinds of nodes are used", why=error)
            else:
                self._shapes_due = now + self._settings.shapes_period

    def _is_final(self, uuid: str) -> bool:
        container = self._look_up(uuid)
        return container is not None and container.final

    def _is_open(self, uuid: str) -> bool:
        container = self._look_up(uuid)
        return container is not None and container.state in HELD

    async def _watch_hooks(self, directory: Path) -> None:
        """Watch for the files with which jobs report their end.

        A job whose container is open then ends by a look, as only the batch system has the reason:
        the job was preempted, cancelled or over its time, or the report of its supervisor is on its
        way.
        """
        reported: set[str] = set()
        while True:
            names = await asyncio.to_thread(_take_names, directory)
            reported.update(names)
            open_ = {job.id for job in self._jobs.of(reported) if self._is_open(job.uuid)}
            if reported and self._jobs.finish(reported - open_):
                self._ended_job.set()
                self._change.set()
            if open_ & set(names):
                self._look_now.set()
            reported = open_
            await asyncio.sleep(self._settings.hook_period)


def _take_names(directory: Path) -> list[str]:
    """The names of the files in a directory, which are removed."""
    names = []
    try:
        for path in directory.iterdir():
            path.unlink()
            names.append(path.name)
    except OSError as error:
        event(_logger, "completion hooks not read", directory=directory, why=error)
    return names


def _kind(assignment: StartRequest) -> tuple[object, ...]:
    """Equal for containers that may share a job array."""
    container = assignment.container
    about = _queue_rank(container) >> slurm_nice.BUCKET
    return (
        container.need,
        container.partitions,
        container.gpu,
        container.max_run_time,
        container.user,
        container.nodes,
        about,
    )


def _queue_rank(container: TrackedContainer) -> int:
    return slurm_nice.wanted(container.priority, container.created_at)


def _worker(shape: NodeShape) -> FleetWorker:
    return FleetWorker(
        shape.name,
        shape.capacity,
        partitions=shape.partitions,
        queues=True,
        closed=not shape.default,
        nodes=shape.counts,
        gpu_kinds=tuple(gpu for _, gpu in sorted(shape.gpus.items())) or None,
    )


def _nobody(_: str) -> TrackedContainer | None:
    return None
