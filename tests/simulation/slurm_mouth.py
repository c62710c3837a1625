"""The programs of Slurm over a played scheduler. The plays of Slurm have arrays and nodes as well
(`slurm_programs`).
"""

from __future__ import annotations

import re

from lading.dispatch.fleets.batch.programs import ProgramResult
from lading.testing.played_scheduler import Mouth, PlayedEnd, PlayedJob, failed, succeeded

_STATES = {
    PlayedEnd.DONE: "COMPLETED",
    PlayedEnd.FAILED: "FAILED",
    PlayedEnd.CANCELLED: "CANCELLED",
    PlayedEnd.TIMEOUT: "TIMEOUT",
    PlayedEnd.NODE_LOST: "NODE_FAIL",
    PlayedEnd.PREEMPTED: "PREEMPTED",
}
_GONE = "slurm_load_jobs error: Invalid job id specified"
_TOP = 4_294_901_760


class SlurmMouth(Mouth):
    """sbatch, squeue, sinfo, scancel, scontrol."""

    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    submissions = frozenset({"sbatch"})
    looks = frozenset({"squeue"})

    def sbatch(self, arguments: list[str], script: str) -> ProgramResult:
        """Take a job."""
        if self.scheduler.refusal:
            return failed(f"sbatch: error: {self.scheduler.refusal}")
        if self.scheduler.is_over_quota():
            return failed(
                "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
                " (job submit limit, user's size and/or time limits)"
            )
        name, mark, nice = (_value(arguments, word) for word in ("job-name", "comment", "nice"))
        job = self.scheduler.submit(script, arguments, name=name, mark=mark, level=-int(nice))
        return succeeded(f"{job.id}\n")

    def squeue(self, arguments: list[str], script: str) -> ProgramResult:
        """List jobs."""
        users, names = _value(arguments, "user").split(","), _value(arguments, "jobs")
        jobs = self.scheduler.shown()
        if names:
            jobs = [job for id in names.split(",") for job in self._known(id)]
            if not jobs:
                return failed(_GONE)
        return succeeded("".join(_row(job) for job in jobs if job.user in users))

    def _known(self, id: str) -> list[PlayedJob]:
        queued = self.scheduler.named(id)
        return [queued] if queued is not None else self.scheduler.accounted(id)[-1:]

    def scancel(self, arguments: list[str], script: str) -> ProgramResult:
        """Cancel jobs in a state, or all."""
        state = _value(arguments, "state").upper()
        missing = []
        for id in (word for word in arguments if not word.startswith("-")):
            job = self.scheduler.named(id)
            if job is None:
                missing.append(id)
            elif state in ("", _state(job)):
                self.scheduler.cancel([id])
        if missing:
            return failed(f"scancel: error: Kill job error on job id {missing[0]}: Invalid job id")
        return succeeded()

    def scontrol(self, arguments: list[str], script: str) -> ProgramResult:
        """Change nice values."""
        for id, nice in re.findall(r"update JobId=(\S+) Nice=(\d+)", script):
            job = self.scheduler.named(id)
            if job is not None:
                job.level = -int(nice)
        return succeeded()

    def sinfo(self, arguments: list[str], script: str) -> ProgramResult:
        """The kinds of nodes."""
        return succeeded("main*|16|20000|100000|idle|(null)|2\n")


def _value(arguments: list[str], name: str) -> str:
    """The value of `--NAME=VALUE`, "" without it."""
    start = f"--{name}="
    return next((word.removeprefix(start) for word in arguments if word.startswith(start)), "")


def _state(job: PlayedJob) -> str:
    if job.end is not PlayedEnd.NONE:
        return _STATES[job.end]
    if job.is_ending:
        return "COMPLETING"
    return "RUNNING" if job.is_started else "PENDING"


def _row(job: PlayedJob) -> str:
    fields = (
        job.id, job.name, -job.level, _TOP - int(job.id) + job.level, _state(job),
        job.reason or "None", job.restarts, "n1" if job.is_started else "", job.mark,
    )  # fmt: skip
    return "|".join(map(str, fields)) + "|\n"
