"""Programs of batch systems: run with a time limit, and what their failures mean.

- Each call has a time limit. Orders run a few at a time; questions are not counted among them, so
  that they do not wait behind submissions.
- Standard error shows whether the controller is unreachable or overloaded (Unavailable: try again
  later), or has refused the request for good (JobRefused). `FailureSigns` has the words of one
  batch system.
- Programs run with the messages of no language, since their messages are read, and with a small
  environment of their own: the dispatcher's may hold secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.core.quantities import shorten

_INHERITED: Final = (
    "PATH", "HOME", "LANG", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH", "SLURM_CONF", "SGE_ROOT",
    "SGE_CELL", "SGE_ARCH", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "PBS_SERVER",
    "PBS_DEFAULT", "PBS_CONF_FILE", "PBS_EXEC", "LSF_ENVDIR", "LSF_SERVERDIR", "LSF_BINDIR",
    "LSF_LIBDIR", "CONDOR_CONFIG", "FLUX_URI",
)  # fmt: skip
# Messages are read, so they are those of no language. `SLURM_BITSTR_LEN` 0: task numbers of arrays
# are never cut with "...". `SGE_LONG_JOB_NAMES`: names are shown whole.
_SET: Final = MappingProxyType(
    {
        "LC_ALL": "C",
        "SLURM_BITSTR_LEN": "0",
        "SLURM_TIME_FORMAT": "standard",
        "SGE_LONG_JOB_NAMES": "1",
    }
)
# Characters of a program's message: what is said about it comes before.
_LONGEST_LINE: Final = 200


class JobRefused(ExecutionError):
    """The batch system refuses this job for good."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Failure.NODE)


class OutcomeUnknown(Unavailable):
    """The program was killed before it reported its outcome."""


class JobQuotaReached(Unavailable):
    """The batch system takes no further job of this user until another one has ended."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and output of a program."""

    code: int
    out: str
    err: str


class ProgramRunner(Protocol):
    """Runs programs."""

    async def __call__(
        self, arguments: Sequence[str], *, stdin: bytes, timeout: float
    ) -> ProgramResult:
        """Run to the end. Raises OutcomeUnknown after `timeout` seconds, Unavailable when there is
        no such program.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSigns:
    """Words in the messages of a batch system, in small letters.

    `away`: the controller cannot be reached now. `unsure`: the request was sent, and its result was
    lost on the way back. `gone`: the job has ended. `quota`: the user has too many jobs.
    """

    away: tuple[str, ...]
    unsure: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    quota: tuple[str, ...] = ()


class Programs:
    """The programs of one batch system: `at_a_time` orders run at a time."""

    def __init__(
        self, run: ProgramRunner, *, timeout: float, signs: FailureSigns, at_a_time: int = 3
    ) -> None:
        self._run = run
        self._timeout = timeout
        self._signs = signs
        # A controller slows down for everybody under many calls at once.
        self._turn = asyncio.Semaphore(at_a_time)

    async def ask(self, *arguments: str) -> str:
        """The output of a program that changes nothing. Raises Unavailable."""
        result = await self.try_to_ask(*arguments)
        if result.code:
            raise Unavailable(f"{arguments[0]}: {last_line(result)}")
        return result.out

    async def try_to_ask(self, *arguments: str) -> ProgramResult:
        """The result of a program that changes nothing, a failed one too. Raises Unavailable."""
        return await self._run(arguments, stdin=b"", timeout=self._timeout)

    async def submit(self, arguments: Sequence[str], script: bytes) -> str:
        """The output of a program that submits a job. Raises JobRefused, Unavailable, and
        OutcomeUnknown when a job may exist.
        """
        result = await self.order(arguments, script)
        # Killed without a word, or the answer was lost: the job may exist, and only a look at the
        # queue tells.
        if result.code and (not _words(result) or self._has(result, self._signs.unsure)):
            raise OutcomeUnknown(f"{arguments[0]}: {last_line(result)}")
        self.check(arguments[0], result)
        return result.out

    async def change(self, *arguments: str, stdin: bytes = b"") -> None:
        """Run a program that changes jobs; jobs that have ended are ignored. Raises JobRefused,
        Unavailable.
        """
        result = await self.order(arguments, stdin)
        if not self.is_gone(result):
            self.check(arguments[0], result)

    async def order(self, arguments: Sequence[str], stdin: bytes = b"") -> ProgramResult:
        """The result of a program that changes something. Raises Unavailable, OutcomeUnknown."""
        async with self._turn:
            return await self._run(arguments, stdin=stdin, timeout=self._timeout)

    def is_gone(self, result: ProgramResult) -> bool:
        """Whether a program says that its job has ended."""
        return self._has(result, self._signs.gone)

    def is_away(self, result: ProgramResult) -> bool:
        """Whether a program says that the controller cannot be reached."""
        return self._has(result, self._signs.away)

    def check(self, program: str, result: ProgramResult) -> None:
        """Raises Unavailable, JobQuotaReached or JobRefused for a program that failed."""
        if not result.code:
            return
        message = f"{program}: {last_line(result)}"
        if self._has(result, self._signs.quota):
            raise JobQuotaReached(message)
        if self.is_away(result):
            raise Unavailable(message)
        raise JobRefused(message)

    def _has(self, result: ProgramResult, signs: Sequence[str]) -> bool:
        words = _words(result).lower()
        return any(sign in words for sign in signs)


async def run_program(arguments: Sequence[str], *, stdin: bytes, timeout: float) -> ProgramResult:
    """Run a program with a small environment of its own. Raises JobRefused for arguments that the
    kernel does not pass, Unavailable where there is no such program, OutcomeUnknown after `timeout`
    seconds.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            cwd="/",
        )
    except ValueError as error:
        raise JobRefused(f"{arguments[0]}: an argument cannot be passed: {error}") from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise JobRefused(f"{arguments[0]}: its arguments are too long") from error
        raise Unavailable(
            f"{arguments[0]}: cannot be run ({error.strerror});"
            " install the batch system's programs on this machine"
        ) from error
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        raise OutcomeUnknown(f"{arguments[0]}: no answer in {timeout:g} s") from None
    finally:
        if process.returncode is None:
            # The process has ended at the same moment.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return ProgramResult(
        process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
    )


def last_line(result: ProgramResult) -> str:
    """The last line of a failure's message, cut to `_LONGEST_LINE` characters."""
    lines = [line.strip() for line in _words(result).splitlines()]
    # Grid Engine ends its messages with a word of its own.
    lines = [line for line in lines if line not in ("", "Exiting.")]
    line = lines[-1].removeprefix("sbatch: error: ") if lines else "no message"
    return shorten(line, _LONGEST_LINE)


def _words(result: ProgramResult) -> str:
    # Some programs explain their failure on standard output.
    return result.err if result.err.strip() else result.out


def _environment() -> Mapping[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | _SET
