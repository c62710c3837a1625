"""Distinguishes a machine that cannot run containers from a container that cannot be run
(docs/spec/containers, section Run).

The messages of the engine decide: an unreachable engine, a root that cannot be mounted, a full
disk. The machine is then marked in its register, or the configured hook is run instead, and a
dispatcher drains it. Messages are matched rather than classes of failures, because a container can
provoke many other failures.
"""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
from pathlib import Path

from lading.supervisor.process.register import Register
from lading.supervisor.supervisor_config import Assignment

_PATTERNS = tuple(
    re.compile(pattern, re.DOTALL)
    # The first four are those of Arvados' crunch-run.
    for pattern in (
        r"[Cc]annot connect to the Docker daemon",
        r"[Oo][Cc][Ii] runtime error.*(mounting|mount).*rootfs.*no such file or directory",
        r"grpc: the connection is unavailable",
        r"[Nn]o space left on device",
        # Our engines' words for the same.
        r"no answer from .*; is the daemon running\?",
        r"crun (could|cannot) (not )?be run",
        r"crun: mount .*rootfs.*[Nn]o such file or directory",
    )
)
# Seconds for the hook; afterwards it is killed.
_HOOK_TIME = 30.0
_logger = logging.getLogger("lading.supervisor")


def is_broken(text: str) -> bool:
    """Whether an error message of an engine means that this machine cannot run containers."""
    return any(pattern.search(text) for pattern in _PATTERNS)


def can_tell(assignment: Assignment) -> bool:
    """Whether there is a hook or a register."""
    return bool(assignment.broken_node_hook or assignment.lock_directory)


async def tell(assignment: Assignment, why: str) -> str:
    """Run the hook, or else mark the machine; return a sentence about it. Nothing is raised: the
    container is reported in any case.
    """
    if assignment.broken_node_hook:
        return await _run_hook(assignment.broken_node_hook)
    try:
        await asyncio.to_thread(Register(Path(assignment.lock_directory)).mark_broken, why)
    except OSError as error:
        return f"this machine cannot run containers, and cannot be marked: {error}"
    return "this machine cannot run containers and is marked as broken"


async def _run_hook(program: str) -> str:
    null = subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, stdin=null, stdout=null, stderr=null
        )
        try:
            code = await asyncio.wait_for(process.wait(), _HOOK_TIME)
        except TimeoutError:
            process.kill()
            await process.wait()
            return (
                "this machine cannot run containers;"
                f" {program} took longer than {_HOOK_TIME:g} s and was ended"
            )
    except OSError as error:
        return f"this machine cannot run containers, and {program} cannot be run: {error.strerror}"
    return f"this machine cannot run containers; {program} ended with {code}"
