"""Calls of Slurm's programs: each has a time limit, and at most three run at a time.

Source: docs/spec/dispatch, section Slurm fleet.

`squeue` and `sinfo` are not counted among the three, so that queries do not wait behind
submissions. Standard error tells whether the controller is unreachable or overloaded (try again
later: Unavailable) or has refused the request for good (Refused).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.dispatch.fleets.slurm.slurm_rows import SINFO_FORMAT, SQUEUE_FORMAT

_AT_A_TIME = 3
"""Commands at a time, so that a dispatcher does not crowd out the users of slurmctld."""
_AWAY = (
    "unable to contact slurm controller",
    "connect failure",
    "connection refused",
    "socket timed out",
    "timed out",
    "temporarily unable",
    "slurm backup controller",
    "in standby mode",
    "zero bytes were transmitted",
    "transport endpoint",
    "communication shutdown",
    "resource temporarily unavailable",
    "protocol authentication error",
    "munge",
    "job/step already completing",
    "unexpected message received",
    "violates accounting",
    "unable to allocate resources",
)
_UNSURE = (
    "socket timed out",
    "zero bytes were transmitted",
    "transport endpoint",
    "communication shutdown",
    "unexpected message received",
)
"""The request was sent, and what came of it was lost on the way back."""
_GONE = ("invalid job id", "already completing or completed", "job has already finished")
_INHERITED = ("PATH", "HOME", "LANG", "SLURM_CONF", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH")


class JobRefused(ExecutionError):
    """Slurm refuses this job for good."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure.NODE)


class OutcomeUnknown(Unavailable):
    """The program was killed before it reported its outcome."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and output of a program."""

    code: int
    out: str
    err: str


class ProgramRunner(Protocol):
    """Runs programs."""

    async def __call__(
        self, arguments: Sequence[str], *, text: bytes, timeout: float
    ) -> ProgramResult:
        """Run to the end. Raises OutcomeUnknown after `timeout` seconds, Unavailable when there is
        no such program.
        """
        ...


class Slurm:
    """The commands of Slurm that a dispatcher uses."""

    def __init__(self, run: ProgramRunner, *, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._turn = asyncio.Semaphore(_AT_A_TIME)

    async def squeue(self) -> str:
        """The jobs that have not ended. Raises Unavailable."""
        return await self._ask(("squeue", "--all", "--noheader", f"--Format={SQUEUE_FORMAT}"))

    async def ended(self, jobs: Sequence[str]) -> str:
        """Rows of these jobs, ended or not; none for jobs that Slurm has forgotten. Raises
        Unavailable.
        """
        bases = sorted({job.partition("_")[0] for job in jobs})
        names = f"--jobs={','.join(bases)}"
        arguments = (
            "squeue",
            "--all",
            "--noheader",
            "--states=all",
            names,
            f"--Format={SQUEUE_FORMAT}",
        )
        done = await self._run(arguments, text=b"", timeout=self._timeout)
        # A single one that it has forgotten is an error of its own.
        return "" if any(sign in done.err.lower() for sign in _GONE) else _output(done, "squeue")

    async def sinfo(self) -> str:
        """The kinds of nodes. Raises Unavailable."""
        return await self._ask(("sinfo", "--noheader", f"--format={SINFO_FORMAT}"))

    async def sbatch(self, arguments: Sequence[str], script: bytes) -> str:
        """Submit a job; return its id. Raises Refused, Unavailable, OutcomeUnknown when a job may
        exist.
        """
        async with self._turn:
            done = await self._run(
                ("sbatch", "--parsable", *arguments), text=script, timeout=self._timeout
            )
        if done.code and (
            not done.err.strip() or any(sign in done.err.lower() for sign in _UNSURE)
        ):
            raise OutcomeUnknown(f"sbatch: {_last_line(done.err)}")
        _check(done, "sbatch")
        job = done.out.strip().partition(";")[0]
        if not job.isdecimal():
            raise OutcomeUnknown(f"sbatch: no job id in its answer {done.out.strip()[:80]!r}")
        return job

    async def scancel(self, jobs: Sequence[str], *options: str) -> None:
        """Signal or cancel jobs; those that have ended are no fault. Raises Unavailable."""
        async with self._turn:
            done = await self._run(("scancel", *options, *jobs), text=b"", timeout=self._timeout)
        if not any(sign in done.err.lower() for sign in _GONE):
            _check(done, "scancel")

    async def renice(self, changes: Mapping[str, int]) -> None:
        """Give jobs new nice values, by one program for all; those that have ended are no fault.
        Raises Unavailable.
        """
        text = "".join(f"update JobId={job} Nice={nice}\n" for job, nice in changes.items())
        async with self._turn:
            done = await self._run(("scontrol",), text=text.encode(), timeout=self._timeout)
        if any(sign in done.err.lower() for sign in _AWAY[:4]):
            _check(done, "scontrol")

    async def _ask(self, arguments: Sequence[str]) -> str:
        return _output(await self._run(arguments, text=b"", timeout=self._timeout), arguments[0])


async def run_program(arguments: Sequence[str], *, text: bytes, timeout: float) -> ProgramResult:
    """Run a program with a small environment of its own: ours may hold secrets."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment | {"SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "standard"},
            cwd="/",
        )
    except OSError as error:
        raise Unavailable(
            f"{arguments[0]}: cannot be run ({error.strerror});"
            " install Slurm's programs on this machine"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(text)
    except TimeoutError:
        raise OutcomeUnknown(f"{arguments[0]}: no answer from Slurm in {timeout:g} s") from None
    finally:
        if process.returncode is None:
            # It has ended at the same moment.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return ProgramResult(
        process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
    )


def _output(done: ProgramResult, program: str) -> str:
    if done.code:
        raise Unavailable(f"{program}: {_last_line(done.err)}")
    return done.out


def _check(done: ProgramResult, program: str) -> None:
    if done.code:
        said = done.err.lower()
        if any(sign in said for sign in _AWAY):
            raise Unavailable(f"{program}: {_last_line(done.err)}")
        raise JobRefused(f"{program}: {_last_line(done.err)}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("sbatch: error: ") if lines else "no message"
