"""The programs of Grid Engine over a played scheduler, with the answers of the real ones
(`tests/dispatch/fleets/gridengine/recorded`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from xml.sax.saxutils import escape

from lading.dispatch.fleets.batch.programs import ProgramResult
from lading.testing.played_scheduler import (
    Mouth,
    PlayedEnd,
    PlayedJob,
    PlayedScheduler,
    failed,
    option,
    succeeded,
)

_HEAD = "<?xml version='1.0'?>\n<job_info  xmlns:xsd=\"http://schemas/qstat/qstat.xsd\">\n"
_FAILED = {
    PlayedEnd.DONE: ("0", "0"),
    PlayedEnd.FAILED: ("0", "1"),
    PlayedEnd.CANCELLED: ("100 : assumedly after job", "137"),
    PlayedEnd.TIMEOUT: ("37  : qmaster enforced h_rt limit", "137"),
    PlayedEnd.NODE_LOST: ("19  : before writing exit_status", "0"),
    PlayedEnd.PREEMPTED: ("25  : rescheduling", "137"),
}


class GridEngineMouth(Mouth):
    """qsub, qstat, qacct, qdel, qalter, qhost."""

    away = (
        "error: commlib error: got select error (Connection refused)\n"
        'error: unable to send message to qmaster using port 6444 on host "master": got send error'
    )
    submissions = frozenset({"qsub"})
    looks = frozenset({"qstat"})

    def __init__(self, scheduler: PlayedScheduler) -> None:
        super().__init__(scheduler)

    def qsub(self, arguments: list[str], script: str) -> ProgramResult:
        """Take a job."""
        if self.scheduler.refusal:
            return failed(f"Unable to run job: {self.scheduler.refusal}.\nExiting.")
        if self.scheduler.is_over_quota():
            return failed(
                "Unable to run job: job rejected: Only 3 jobs are allowed per user"
                " (current job count: 3).\nExiting."
            )
        name = option(arguments, "-N")
        job = self.scheduler.submit(
            script, arguments, name=name, mark=name, level=int(option(arguments, "-p", "0"))
        )
        return succeeded(f"{job.id}\n")

    def qstat(self, arguments: list[str], script: str) -> ProgramResult:
        """List the jobs of a user, or say why some wait."""
        if "-j" in arguments:
            return self._explain(option(arguments, "-j").split(","))
        user = option(arguments, "-u")
        jobs = [job for job in self.scheduler.shown() if job.user == user]
        started = "".join(self._row(job) for job in jobs if job.is_started)
        waiting = "".join(self._row(job) for job in jobs if not job.is_started)
        return succeeded(
            f"{_HEAD}  <queue_info>\n{started}  </queue_info>\n"
            f"  <job_info>\n{waiting}  </job_info>\n</job_info>\n"
        )

    def _row(self, job: PlayedJob) -> str:
        letters = ("R" if job.restarts else "") + ("r" if job.is_started else "qw")
        letters = ("E" if job.is_stuck else "") + ("d" if job.is_ending else "") + letters
        state = "running" if job.is_started else "pending"
        when = datetime.fromtimestamp(job.submitted_at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        queue = "all.q@n1" if job.is_started else ""
        return (
            f'    <job_list state="{state}">\n'
            f"      <JB_job_number>{job.id}</JB_job_number>\n      <JAT_prio>0.5</JAT_prio>\n"
            f"      <JB_priority>{job.level}</JB_priority>\n"
            f"      <JB_name>{escape(job.name)}</JB_name>\n"
            f"      <JB_owner>{job.user}</JB_owner>\n      <state>{letters}</state>\n"
            f"      <JB_submission_time>{when}</JB_submission_time>\n"
            f"      <queue_name>{queue}</queue_name>\n      <slots>1</slots>\n    </job_list>\n"
        )

    def _explain(self, ids: list[str]) -> ProgramResult:
        jobs = [job for id in ids if (job := self.scheduler.named(id)) is not None]
        blocks = (
            f"{'=' * 62}\njob_number:                 {job.id}\n"
            f"scheduling info:            {job.reason}\n"
            for job in jobs
        )
        return succeeded("".join(blocks))

    def qacct(self, arguments: list[str], script: str) -> ProgramResult:
        """The accounts of a job id."""
        id = option(arguments, "-j")
        jobs = self.scheduler.accounted(id)
        if not jobs:
            return failed(f"error: job id {id} not found")
        return succeeded("".join(_account(job) for job in jobs))

    def qdel(self, arguments: list[str], script: str) -> ProgramResult:
        """Delete jobs."""
        missing = self.scheduler.cancel(arguments[-1].split(","))
        if missing:
            return failed("\n".join(f'denied: job "{id}" does not exist' for id in missing))
        return succeeded("lading has registered the job for deletion\n")

    def qalter(self, arguments: list[str], script: str) -> ProgramResult:
        """Change the priority of jobs."""
        for id in arguments[-1].split(","):
            job = self.scheduler.named(id)
            if job is not None:
                job.level = int(option(arguments, "-p"))
        return succeeded()

    def qhost(self, arguments: list[str], script: str) -> ProgramResult:
        """The hosts with their queues."""
        return succeeded(
            "<?xml version='1.0'?>\n<qhost>\n <host name='global'>\n"
            "   <hostvalue name='num_proc'>-</hostvalue>\n"
            "   <hostvalue name='mem_total'>-</hostvalue>\n </host>\n <host name='n1'>\n"
            "   <hostvalue name='num_proc'>16</hostvalue>\n"
            "   <hostvalue name='mem_total'>20.0G</hostvalue>\n"
            "   <queue name='all.q'>\n"
            "     <queuevalue qname='all.q' name='slots'>16</queuevalue>\n"
            "     <queuevalue qname='all.q' name='state_string'></queuevalue>\n"
            "   </queue>\n </host>\n</qhost>\n"
        )


def _account(job: PlayedJob) -> str:
    code, status = _FAILED[job.end]
    fields = {
        "qname": "all.q",
        "hostname": "n1",
        "owner": job.user,
        "jobname": job.name,
        "jobnumber": job.id,
        "failed": code,
        "exit_status": status,
    }
    lines = "".join(f"{key:<13}{value}\n" for key, value in fields.items())
    return f"{'=' * 62}\n{lines}"
