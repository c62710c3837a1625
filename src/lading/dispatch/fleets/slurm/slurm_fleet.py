"""The fleet of a Slurm cluster: each container is a batch job.

- Capacity comes from `sinfo`: each kind of node is a worker that queues for itself, so a container
  is handed to Slurm when some node can hold it, and Slurm decides when it starts.
- One `squeue` in each interval reports about all jobs. A slow one makes the
  interval longer; while Slurm does not answer, it is called less often, nothing is locked, and jobs
  that were alive count as alive. Containers that are already locked wait a little for an answer:
  each lock counts as an attempt, and attempts are limited.
- Containers that are alike and arrive together become one job array.
- Waiting jobs are kept in the order of the containers' priorities by their nice values, all with
  one `scontrol`.
- Cancelling asks the supervisor to end by TERM to the job's script alone; a job that still waits is
  cancelled at once.
- The script is also the completion hook (`job_script`).

Source: docs/spec/dispatch, section Slurm fleet.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Self

from lading.core.containers.container import HELD
from lading.core.errors import Conflict, LadingError, Unavailable
from lading.core.scheduling import slurm_nice
from lading.core.scheduling.planning import FleetWorker, TrackedContainer
from lading.dispatch.fleet import FleetSite, FleetView, LookUp, StartRequest
from lading.dispatch.fleets.slurm.batches import Batcher
from lading.dispatch.fleets.slurm.job_script import (
    Task,
    write,
)
from lading.dispatch.fleets.slurm.slurm_commands import (
    JobPhase,
    JobRefused,
    NodeShape,
    OutcomeUnknown,
    QueueRow,
    Slurm,
    comment,
    read_sinfo,
    read_squeue,
    run_program,
)
from lading.dispatch.fleets.slurm.slurm_gpus import JobGpus, known_kinds
from lading.dispatch.fleets.slurm.slurm_jobs import Job, SlurmJobs
from lading.dispatch.fleets.slurm.slurm_nodes import SlurmNodes
from lading.dispatch.fleets.slurm.slurm_settings import SlurmSettings, slurm_settings
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch")
# Job arrays that are submitted at a time: as many as Slurm commands run at a time.
_SUBMISSIONS = 3
# Commands that fail in a row before Slurm is taken not to be there.
_ILL = 3


def open_slurm(site: FleetSite) -> SlurmFleet:
    """The fleet of a Slurm cluster, from the configuration. Raises Invalid for a template that
    cannot be filled.
    """
    timeout = site.config.Containers.SLURM.CommandTimeout
    settings = slurm_settings(site)
    users = (str(os.geteuid()), *settings.templates.users())
    return SlurmFleet(settings, Slurm(run_program, timeout=timeout, users=users))


class SlurmFleet:
    """Implements `Fleet`. Use as `async with`: leaving it leaves the jobs in Slurm."""

    def __init__(self, settings: SlurmSettings, slurm: Slurm) -> None:
        settings.templates.check()
        self._settings = settings
        self._slurm = slurm
        self._jobs = SlurmJobs(settings.token)
        self.machine_source = SlurmNodes(slurm, gpu_types=settings.gpu_types)
        self._shapes: tuple[NodeShape, ...] = ()
        self._known = False
        self._fault = ""
        """Error of the first look, until Slurm has answered once."""
        self._well = asyncio.Event()
        self._failures = 0
        self._look_up: LookUp = _nobody
        self._change = asyncio.Event()
        self._look_now = asyncio.Event()
        self._shapes_due = 0.0
        self._starts = Batcher(
            self._submit, alike=_kind, most=max(1, settings.array_size), workers=_SUBMISSIONS
        )
        self._stops = Batcher(self._stop, alike=lambda one: one[1], most=100, workers=1)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve(), name="Slurm")
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
        # While Slurm does not answer no worker is shown, so that nothing is locked for it.
        workers = tuple(_worker(shape) for shape in self._shapes) if self._well.is_set() else ()
        waiting = self._jobs.count(JobPhase.WAITING)
        most = max(0, self._settings.most_waiting - waiting)
        return FleetView(
            known=self._known,
            workers=workers,
            processes=self._jobs.processes(),
            most=most,
            trouble="" if self._known else self._fault,
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
            raise Conflict(f"{assignment.uuid}: it has a job in Slurm already")
        # Noted before the first await: a second start of this container then raises Conflict.
        self._jobs.submitting(assignment.uuid)
        try:
            await self._starts.ask(assignment)
        # The batch may have been handed to sbatch already: only `squeue` can show it.
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
        # Slurm cannot signal a job without an id; the dispatcher tries again at its next step.
        if not job.id:
            raise Unavailable(f"{uuid}: its job is being submitted")
        await self._stops.ask((job.id, number))
        self._look_now.set()

    async def clean(self, uuid: str) -> None:
        """Forget a job that has ended; cancel it if Slurm has queued it again. Raises Conflict,
        Unavailable.
        """
        job = self._jobs.get(uuid)
        if job is None:
            return
        if job.alive:
            raise Conflict(f"{uuid}: its job {job.id or 'in Slurm'} has not ended")
        if job.lost:
            await self._stops.ask((job.id, Signals.SIGKILL))
        self._jobs.drop(uuid)
        self._change.set()

    # Submitting and stopping.

    async def _submit(self, batch: Sequence[StartRequest]) -> None:
        # The tasks of an array start by index: the first in the queue's order gets index 0.
        wanted = sorted(batch, key=lambda one: _wanted(one.container), reverse=True)
        uuids = [one.uuid for one in wanted]
        first = wanted[0].container
        spread = self._is_spread(first)
        script = write(
            self._settings.site,
            [Task(one.uuid, one.token, one.container.need.vcpus, spread) for one in wanted],
        )
        arguments = self._settings.templates.fill(
            uuids[0], first, spread=spread, gpus=self._gpus_of_job(first)
        )
        array = [f"--array=0-{len(uuids) - 1}"] if len(uuids) > 1 else []
        mark = f"--comment={comment(self._settings.token, uuids)}"
        try:
            job = await self._sbatch(
                # Output of the script would need a place on each node; the supervisor reports
                # through the API.
                ["--output=/dev/null", "--chdir=/", *arguments, *array, mark],
                script,
            )
        except (JobRefused, Unavailable) as error:
            unsure = isinstance(error, OutcomeUnknown)
            for uuid in uuids:
                (self._jobs.unsure if unsure else self._jobs.refused)(uuid)
            raise
        for index, uuid in enumerate(uuids):
            self._jobs.submitted(uuid, f"{job}_{index}" if array else job)
        event(_logger, "job submitted", job=job, containers=len(uuids), first=uuids[0])

    async def _sbatch(self, arguments: Sequence[str], script: bytes) -> str:
        """Submit, and again after failures that pass. Raises Refused, Unavailable,
        OutcomeUnknown.
        """
        until = asyncio.get_running_loop().time() + self._settings.patience
        while True:
            try:
                async with asyncio.timeout_at(until):
                    await self._well.wait()
            except TimeoutError:
                raise Unavailable("Slurm does not answer; looking again in a moment.") from None
            try:
                job = await self._slurm.sbatch(arguments, script)
            except Unavailable as error:
                self._ail(error)
                # Submitted again, such a job might run twice.
                if isinstance(error, OutcomeUnknown):
                    raise
            else:
                self._failures = 0
                return job

    def _gpus_of_job(self, container: TrackedContainer) -> JobGpus:
        shapes = (shape for shape in self._shapes if _worker(shape).takes(container.partitions))
        kinds = [shape.gpus for shape in shapes]
        return self._settings.gpu_types.choose(container.gpu, kinds)

    def _is_spread(self, container: TrackedContainer) -> bool:
        able = (one for one in map(_worker, self._shapes) if one.takes(container.partitions))
        return container.nodes > 1 and not any(container.need.fits(one.capacity) for one in able)

    async def _stop(self, batch: Sequence[tuple[str, Signals]]) -> None:
        jobs, number = [job for job, _ in batch], batch[0][1]
        if number is Signals.SIGKILL:
            await self._slurm.scancel(jobs)
            return
        # A waiting job has no script to signal: it is cancelled. Of a running one the script alone
        # gets the signal and passes it to the supervisor, which saves output and log.
        await self._slurm.scancel(jobs, "--state=pending")
        name = number.name.removeprefix("SIG")
        for state in ("running", "suspended"):
            await self._slurm.scancel(jobs, "--batch", f"--signal={name}", f"--state={state}")

    def _ail(self, error: LadingError) -> None:
        """Count a failed command: after several in a row nothing is submitted before a look
        succeeds again.
        """
        self._fault = f"Slurm does not answer: {error.message}"
        if not self._known:
            self._change.set()
        # The refusal of one job does not mean that Slurm is unavailable.
        self._failures += isinstance(error, Unavailable)
        if self._failures >= _ILL and self._well.is_set():
            self._well.clear()
            event(_logger, "Slurm does not answer", why=error)
            self._change.set()

    # Looking.

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._starts.run(), name="submissions")
            tasks.create_task(self._stops.run(), name="cancellations")
            tasks.create_task(self._poll(), name="looks at the queue")
            tasks.create_task(self._watch_nodes(), name="looks at the nodes")
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

    async def _watch_nodes(self) -> None:
        """Look at the nodes while Slurm answers; what is seen is shown to people only."""
        while True:
            await self._well.wait()
            # The next look tries again.
            with suppress(LadingError):
                await self.machine_source.look()
            await asyncio.sleep(self._settings.node_period)

    async def _pause(self, seconds: float, failures: int) -> None:
        try:
            async with asyncio.timeout(seconds):
                # A request for an earlier look counts only while Slurm answers: more calls would
                # make an overload worse.
                await (asyncio.Event() if failures else self._look_now).wait()
                # Several requests within a fraction of a second share one look.
                await asyncio.sleep(min(self._settings.poll_period, 0.2))
        except TimeoutError:
            return

    async def _look(self) -> None:
        number = self._jobs.begin_look()
        rows = read_squeue(await self._slurm.squeue())
        if not self._known:
            # Before the first look there are no expected jobs by which an incomplete answer would
            # be noticed.
            rows += read_squeue(await self._slurm.squeue())
        missing = [job for job in self._jobs.missing(rows, number) if not self._is_final(job.uuid)]
        fates = await self._ask_about(missing)
        kept = () if fates is not None else {job.uuid for job in missing}
        alive = [row for row in fates or () if row.phase is not JobPhase.ENDED]
        self._jobs.observe((*rows, *alive), number, kept=kept)
        self._jobs.explain(fates or ())
        await self._see_shapes()
        self._known = True
        self._failures = 0
        self._well.set()
        self._change.set()
        try:
            await self._tidy()
        except LadingError as error:
            # The next look finds the same work again.
            event(_logger, "jobs not put in order", why=error)

    async def _tidy(self) -> None:
        strays = self._jobs.take_strays()
        if strays:
            await self._slurm.scancel(strays)
        changes = self._jobs.changes(self._look_up, spread=self._settings.spread)
        if changes:
            await self._slurm.renice(changes)

    async def _ask_about(self, jobs: Sequence[Job]) -> list[QueueRow] | None:
        """Fates of jobs that the queue does not show, though their containers have not ended; None
        if unknown.

        A container is ended or run again for it: no single answer of `squeue`, cut or old, is
        enough for that.
        """
        if not jobs:
            return []
        try:
            return read_squeue(await self._slurm.ended([job.id for job in jobs]))
        except Unavailable as error:
            event(_logger, "Slurm does not report the states of jobs", why=error)
            return None

    async def _see_shapes(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._shapes_due <= now or not self._well.is_set():
            try:
                self._shapes = read_sinfo(await self._slurm.sinfo(), self._settings.gpu_types)
            except Unavailable as error:
                if not self._shapes:
                    raise
                # The old kinds of nodes serve until the next look asks again.
                event(_logger, "sinfo failed: the former kinds of nodes are used", why=error)
            else:
                self._shapes_due = now + self._settings.sinfo_period

    def _is_final(self, uuid: str) -> bool:
        container = self._look_up(uuid)
        return container is not None and container.final

    def _is_open(self, uuid: str) -> bool:
        container = self._look_up(uuid)
        return container is not None and container.state in HELD

    async def _watch_hooks(self, directory: Path) -> None:
        """Watch for the files with which jobs report their end.

        A job whose container is open then ends by a look, as only Slurm has the reason: the job was
        preempted, cancelled or over its time, or the report of its supervisor is on its way.
        """
        told: set[str] = set()
        while True:
            names = await asyncio.to_thread(_take_names, directory)
            told.update(names)
            open_ = {job.id for job in self._jobs.of(told) if self._is_open(job.uuid)}
            if told and self._jobs.finish(told - open_):
                self._change.set()
            if open_ & set(names):
                self._look_now.set()
            told = open_
            await asyncio.sleep(self._settings.hook_period)


def _take_names(directory: Path) -> list[str]:
    """The names of the files in a directory, which are removed."""
    found = []
    try:
        for path in directory.iterdir():
            path.unlink()
            found.append(path.name)
    except OSError as error:
        event(_logger, "completion hooks not read", directory=directory, why=error)
    return found


def _kind(assignment: StartRequest) -> tuple[object, ...]:
    """Equal for containers that may share a job array."""
    one = assignment.container
    about = _wanted(one) >> slurm_nice.BUCKET
    return one.need, one.partitions, one.gpu, one.max_run_time, one.user, one.nodes, about


def _wanted(container: TrackedContainer) -> int:
    return slurm_nice.wanted(container.priority, container.created_at)


def _worker(shape: NodeShape) -> FleetWorker:
    return FleetWorker(
        shape.name,
        shape.capacity,
        partitions=shape.partitions,
        queues=True,
        closed=not shape.default,
        nodes=shape.counts,
        gpu_kinds=known_kinds(shape.gpus) or None,
    )


def _nobody(_: str) -> TrackedContainer | None:
    return None
