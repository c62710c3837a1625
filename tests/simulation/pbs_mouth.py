"""The programs of OpenPBS over a played scheduler, with the answers of the real ones
(`tests/dispatch/fleets/batch_adapters/recorded`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lading.dispatch.fleets.batch.programs import ProgramResult
from lading.testing.played_scheduler import (
    Mouth,
    PlayedEnd,
    PlayedJob,
    failed,
    option,
    succeeded,
)

_STATUS = {
    PlayedEnd.DONE: 0,
    PlayedEnd.FAILED: 1,
    PlayedEnd.CANCELLED: 271,
    PlayedEnd.TIMEOUT: -29,
    PlayedEnd.NODE_LOST: -20,
    PlayedEnd.PREEMPTED: -11,
}


class PbsMouth(Mouth):
    """qsub, qstat, qdel, qsig, qalter, pbsnodes."""

    away = "Connection refused\nqstat: cannot connect to server pbs (errno=15010)"
    submissions = frozenset({"qsub"})
    looks = frozenset({"qstat"})

    def qsub(self, arguments: list[str], script: str) -> ProgramResult:
        """Take a job."""
        if self.scheduler.refusal:
            return failed(f"qsub: {self.scheduler.refusal}")
        if self.scheduler.is_over_quota():
            return failed("qsub: would exceed complex's per-user limit of jobs in 'Q' state")
        name = option(arguments, "-N")
        level = int(option(arguments, "-p", "0"))
        job = self.scheduler.submit(script, arguments, name=name, mark=name, level=level)
        return succeeded(f"{job.id}.pbs\n")

    def qstat(self, arguments: list[str], script: str) -> ProgramResult:
        """List jobs or queues."""
        if "-Q" in arguments:
            queue = {"queue_type": "Execution", "enabled": "True", "started": "True"}
            return _document({"Queue": {"main": queue, "off": queue | {"started": "False"}}})
        ids = [word.partition(".")[0] for word in arguments if word[0].isdecimal()]
        if not ids:
            return _document({"Jobs": dict(map(_job, self.scheduler.shown()))})
        jobs = [job for id in ids for job in self._known(id)]
        missing = [id for id in ids if not self._known(id)]
        result = _document({"Jobs": dict(map(_job, jobs))} if jobs else {})
        words = "".join(f"qstat: Unknown Job Id {id}.pbs\n" for id in missing)
        return ProgramResult(153 if missing else 0, result.out, words)

    def _known(self, id: str) -> list[PlayedJob]:
        queued = self.scheduler.named(id)
        return [queued] if queued is not None else self.scheduler.accounted(id)[-1:]

    def qdel(self, arguments: list[str], script: str) -> ProgramResult:
        """Delete jobs."""
        missing = self.scheduler.cancel([word.partition(".")[0] for word in arguments])
        if missing:
            return failed("\n".join(f"qdel: Unknown Job Id {id}.pbs" for id in missing))
        return succeeded()

    def qsig(self, arguments: list[str], script: str) -> ProgramResult:
        """Signal running jobs."""
        return self.qdel(arguments[2:], script)

    def qalter(self, arguments: list[str], script: str) -> ProgramResult:
        """Change the priority of jobs."""
        for word in arguments[2:]:
            job = self.scheduler.named(word.partition(".")[0])
            if job is not None:
                job.level = int(arguments[1])
        return succeeded()

    def pbsnodes(self, arguments: list[str], script: str) -> ProgramResult:
        """The nodes."""
        resources = {"mem": "20000000kb", "ncpus": 16, "vnode": "n1"}
        return _document({"nodes": {"n1": {"state": "free", "resources_available": resources}}})


def _job(job: PlayedJob) -> tuple[str, dict[str, object]]:
    fields: dict[str, object] = {
        "Job_Name": job.name,
        "Job_Owner": f"{job.user}@login",
        "job_state": _state(job),
        "queue": "main",
        "ctime": datetime.fromtimestamp(job.submitted_at, UTC).strftime("%a %b %e %H:%M:%S %Y"),
        "Hold_Types": "s" if job.is_stuck else "n",
        "Priority": job.level,
        "run_count": job.restarts + job.is_started,
        "comment": job.reason or "Job run",
    }
    if job.is_started:
        fields["exec_host"] = "n1/0*2"
    if job.end is not PlayedEnd.NONE:
        fields["Exit_status"] = _STATUS[job.end]
    return f"{job.id}.pbs", fields


def _state(job: PlayedJob) -> str:
    if job.end is not PlayedEnd.NONE:
        return "F"
    if job.is_started:
        return "E" if job.is_ending else "R"
    return "H" if job.is_stuck else "Q"


def _document(sections: dict[str, object]) -> ProgramResult:
    head = {"timestamp": 1646895019, "pbs_version": "20.0.1", "pbs_server": "pbs"}
    return succeeded(json.dumps(head | sections, indent=4))
