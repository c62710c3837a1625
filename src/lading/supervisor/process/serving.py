"""Serves one container at a time in this process: signals, mounts, removal of its run directory.

The life cycle itself (`supervisor.lifecycle`) knows no process: whatever belongs to the process as
a whole is done here.

A supervisor of its own (`standalone`) serves one container in this way, a reusable one (`worker`)
one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from lading.client.transport import Transport
from lading.process import removal
from lading.process.concurrency import StopEvent
from lading.supervisor import journal, linux, rootless
from lading.supervisor.container_trace import close_tracer
from lading.supervisor.engines import (
    AUTOMATIC,
    NATIVE,
    EngineMaker,
    has_native_program,
    user_namespace,
)
from lading.supervisor.lifecycle.driver import LifeSteps, supervise
from lading.supervisor.lifecycle.run import Controls, HandOver, WaitForTurn
from lading.supervisor.limits.cgroup import read_text
from lading.supervisor.machine import mount_table
from lading.supervisor.supervisor_config import SupervisorConfig

_logger = logging.getLogger("lading.supervisor")


def ignore_probes() -> None:
    """Let USR1 and USR2 do nothing: by default they kill, and listings of supervisors send them.

    Handlers rather than SIG_IGN, which the container's command would inherit (signal(7)).
    """
    signal.signal(signal.SIGUSR1, _do_nothing)
    signal.signal(signal.SIGUSR2, _do_nothing)


class Signals:
    """Signals for the container that this process serves now. Make it in a running event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.renew()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, lambda: self.stop.set())
        loop.add_signal_handler(signal.SIGUSR1, lambda: self.flush.set())
        loop.add_signal_handler(signal.SIGUSR2, lambda: self.reprice.set())
        loop.add_signal_handler(signal.SIGCONT, lambda: self.go.set())

    def renew(self) -> None:
        """Replace all signals by new ones for the next container of this process."""
        self.stop, self.flush = StopEvent(), asyncio.Event()
        self.reprice, self.go = asyncio.Event(), asyncio.Event()


def run_one(assignment: SupervisorConfig, lock: int, *, engines: EngineMaker) -> int:
    """Supervise one container in this process; `lock` is the descriptor that locks its run
    directory.

    Leaves the mount namespace of the machine, and removes the run directory at the end; returns the
    exit code of the process.
    """
    ignore_probes()
    journal.write_holder(lock, journal.LockHolder(UUID=assignment.container_uuid, PID=os.getpid()))
    take_own_mounts(Path(assignment.run_directory))
    try:
        return asyncio.run(_run(assignment, engines))
    finally:
        close_tracer(assignment.tracing)


def become_root_of_user(engine: str, run_root: Path) -> None:
    """For an ordinary user with the native engine: enter a user namespace in which this process is
    root (`supervisor.rootless`). `run_root` is the parent of run directories. It changes nothing
    for another engine, and where the machine does not allow it; the engine then tells so.

    Call it before the process has a second thread.
    """
    if os.geteuid() == 0 or engine not in (NATIVE, AUTOMATIC) or not has_native_program():
        return
    from lading.supervisor.limits.delegation import take_delegated
    from lading.supervisor.rootless_trial import try_in_child

    run_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    trial = try_in_child(run_root)
    if trial.fault:
        _logger.warning("the native engine cannot run for this user: %s", trial.fault)
        return
    if trial.overlay_fault:
        _logger.warning(
            "the kernel mounts no overlay for this user (%s): roots of containers by %s",
            trial.overlay_fault,
            trial.root_kind,
        )
    own = read_text(Path("/proc/self/cgroup"))
    rootless.enter(
        run_root,
        trial.root_kind,
        hierarchy=take_delegated(mount_table(), own),
        ids=trial.ids.ids,
    )


def take_own_mounts(directory: Path) -> None:
    """As root, also of a user namespace: leave the mount namespace of the process that started this
    one. `directory` is needed in the new one.

    Call it before the process has a second thread. Raises OSError without permission.
    """
    if os.geteuid() != 0:
        return
    linux.leave_mount_namespace(directory)
    # Without this file system containers only start some milliseconds later. It is never mounted in
    # the namespace of the machine.
    if linux.has_own_mounts():
        # A kernel without it: only slower, see above.
        with contextlib.suppress(OSError):
            inside = rootless.entered()
            user_namespace.hold_in_memory(inside.machine if inside else user_namespace.MACHINE)


async def _run(assignment: SupervisorConfig, engines: EngineMaker) -> int:
    return await live(assignment, Signals(), engines=engines)


async def live(
    assignment: SupervisorConfig,
    signals: Signals,
    *,
    engines: EngineMaker,
    transport: Transport | None = None,
    on_idle: Callable[[], None] | None = None,
    turn: WaitForTurn | None = None,
    hand_over: HandOver | None = None,
    steps: LifeSteps | None = None,
) -> int:
    """Run one container from its assignment to the removal of its run directory; return its exit
    code.

    Parts of the run directory that cannot be removed are moved aside (`process.removal`). A given
    `transport` stays open; `on_idle`, `turn` and `hand_over` are those of `Controls`; `steps` are
    those of a container with which an earlier supervisor has begun.
    """
    try:
        controls = Controls(
            stop=signals.stop,
            flush=signals.flush,
            reprice=signals.reprice,
            on_idle=on_idle,
            turn=turn,
            hand_over=hand_over,
        )
        return await supervise(
            assignment, engines=engines, transport=transport, controls=controls, steps=steps
        )
    finally:
        try:
            # Nothing else happens in this process now, so the removal may block.
            directory = Path(assignment.run_directory)
            linux.discard_directory(
                directory, aside=removal.beside(directory), last=journal.LOCK_NAME
            )
        except OSError as error:
            _logger.error("container=%s run directory stays: %s", assignment.container_uuid, error)


def _do_nothing(number: int, frame: object) -> None:
    del number, frame
