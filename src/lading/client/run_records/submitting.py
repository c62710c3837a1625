"""The process that submits the steps of a run: its session, and the code that it runs.

`LADING_RUN` names the run of all requests that a program submits, `LADING_ATTEMPT` the attempt. A
program is a session: all that it submits is one attempt, and the same program run again is the next
one. The session is the job of the shell at a terminal; elsewhere the first process that was started
with the variable, or the parent. `LADING_SESSION` names it where that is wrong.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lading.core.errors import Invalid
from lading.core.runs.parameters import parse_number

RUN: Final = "LADING_RUN"
ATTEMPT: Final = "LADING_ATTEMPT"
SESSION: Final = "LADING_SESSION"
_DEEPEST: Final = 64
"""Processes above this one that are looked at."""
_LARGEST: Final = 64 << 20
"""Bytes of a script whose hash is computed."""
_PATIENCE: Final = 10.0
"""Seconds for a call of git."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """A process: its parent, group, session, terminal (0 without one) and start time."""

    pid: int
    parent: int
    group: int
    session: int
    terminal: int
    started: str
    has_variable: bool = False
    """Whether it was started with LADING_RUN."""


ProcessReader = Callable[[int], "ProcessFacts | None"]


def named_run(reference: str) -> tuple[str, int | None]:
    """The name of a run and the number of its attempt: `cohort-7#2`. Raises Invalid."""
    name, mark, number = reference.rpartition("#")
    return (name, parse_number(number)) if mark else (reference, None)


def run_of(
    environment: Mapping[str, str], named: str | None = None
) -> tuple[str, int | None] | None:
    """The run of a request and its attempt: those that are named, else those of the environment;
    None without. Raises Invalid.
    """
    if named:
        return named_run(named)
    if not (variable := environment.get(RUN, "").strip()):
        return None
    name, number = named_run(variable)
    return name, number or parse_number(environment.get(ATTEMPT, ""), name=ATTEMPT)


def submitter(read: ProcessReader, own: int) -> ProcessFacts | None:
    """The process whose submissions are one attempt; None if it cannot be found."""
    this = read(own)
    parent = read(this.parent) if this else None
    if this is None or parent is None:
        return None
    if this.terminal:
        # An interactive shell gives each command line a process group of its own.
        if parent.pid == parent.session:
            return parent
        return read(this.group) or parent
    first, process = parent, parent
    for _ in range(_DEEPEST):
        if not process.has_variable:
            break
        first = process
        above = read(process.parent)
        if above is None:
            break
        process = above
    return first


def session_of(environment: Mapping[str, str], read: ProcessReader, own: int, boot: str) -> str:
    """The name of the session of this process: equal for all that its program starts. `boot` names
    the machine and its last start.
    """
    if named := environment.get(SESSION, "").strip():
        return named[:200]
    process = submitter(read, own)
    known = f"{process.pid} {process.started}" if process else f"{own}"
    return hashlib.sha256(f"{boot} {known}".encode()).hexdigest()[:24]


def this_session() -> str:
    """The session of this process."""
    return session_of(os.environ, read_process, os.getpid(), _boot())


def this_source() -> dict[str, Any]:
    """The code that this process was started from: the script of its session, and the commit of the
    working directory. Facts that cannot be found out are left out.
    """
    source: dict[str, Any] = {}
    process = submitter(read_process, os.getpid())
    script = _script_of(process.pid) if process else None
    if script is not None:
        source |= script_facts(script)
    return source | commit_facts(Path.cwd())


def script_facts(path: Path) -> dict[str, Any]:
    """Name and SHA-256 of a script; {} for one that cannot be read."""
    try:
        if path.stat().st_size > _LARGEST:
            return {"script": path.name}
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return {}
    return {"script": path.name, "script_hash": f"sha256:{digest}"}


def commit_facts(directory: Path) -> dict[str, Any]:
    """The commit that is checked out in a directory, and whether files differ from it; {} without
    git or a repository.
    """
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return {}
    changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_dirty": bool(changes)}


def read_process(pid: int) -> ProcessFacts | None:
    """The facts about a process of this machine; None for one that is not there, or not ours."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program may have blanks and parentheses.
    values = stat.rpartition(")")[2].split()
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        variables = b""
    return ProcessFacts(
        pid=pid,
        parent=int(values[1]),
        group=int(values[2]),
        session=int(values[3]),
        terminal=int(values[4]),
        started=values[19],
        has_variable=any(entry.startswith(f"{RUN}=".encode()) for entry in variables.split(b"\0")),
    )


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return os.uname().nodename


def _script_of(pid: int) -> Path | None:
    """The first file that a process got as an argument, such as the script of a shell."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:]
        directory = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None
    for argument in arguments:
        path = directory / os.fsdecode(argument)
        if argument and path.is_file():
            return path
    return None


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def need_run(named: tuple[str, int | None] | None) -> tuple[str, int | None]:
    """The run that is named. Raises Invalid where none is."""
    if named is None:
        raise Invalid(f"no run is named; give NAME, or set {RUN}")
    return named
