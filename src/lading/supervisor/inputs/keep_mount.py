"""The mount of one container: its large inputs, read on demand, and the contents of `keep` mounts.

A process of its own serves it with the container's token (`lading.client.mount`). It ends with the
supervisor. For an engine that sees mounts of this process it mounts in the namespace of this
process, and the mount vanishes with it. For a daemon it mounts in the namespace of the machine,
where the removal of the run directory unmounts it after a crash.

    <run directory>/keep/<pdh>              large inputs alone: nothing there ever changes
    <run directory>/keep/by_id/<pdh>, ...   with a `keep` mount: everything that the container
                                            may read
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lading.core.containers.mounting.mount_plan import MountPlan
from lading.core.containers.mounting.mount_steps import BY_ID, CollectionPath, KeepTree
from lading.core.errors import ExecutionError, Failure, Unavailable
from lading.supervisor import linux
from lading.supervisor.logs import KEEP_MOUNT, Log, Pump
from lading.supervisor.supervisor_config import SupervisorConfig

# Most containers mount no collections: what a mount needs is imported when one is made.
if TYPE_CHECKING:
    from lading.client.mount.service import MountSettings

# Seconds to read the rest of the mount process's log.
_DRAIN = 1.0


class KeepMount:
    """The mount; not made until it is opened. `private`: the engine sees mounts of this process."""

    def __init__(
        self, assignment: SupervisorConfig, log: Log, *, token: str, private: bool
    ) -> None:
        self._assignment = assignment
        self._log = log
        self._token = token
        self._private = private
        self._point = Path(assignment.run_directory) / "keep"
        self._view = self._point
        self._shows_all = False
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: Pump | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is mounted."""
        return self._process is not None

    async def open(self, *, shows_all: bool) -> None:
        """Mount; `shows_all`: show everything that the container may read. Raises Unavailable with
        the reason.
        """
        from lading.client.mount.mount_points import check_fuse

        check_fuse()
        self._shows_all = shows_all
        self._point.mkdir(mode=0o755, exist_ok=True)
        # In a private mount namespace the engine's daemon would not see the mount, so it is made in
        # the namespace of the machine.
        elsewhere = not self._private and os.geteuid() == 0 and linux.has_own_mounts()
        namespace = linux.open_machine_namespace() if elsewhere else -1
        self._pump = Pump(self._log, KEEP_MOUNT)
        try:
            await self._launch(namespace, self._pump.writing)
        finally:
            self._pump.handed_over()
            if elsewhere:
                os.close(namespace)
        if elsewhere and self._process is not None:
            # A mount of the machine may not propagate to this namespace; it is read through
            # /proc/PID/root.
            self._view = Path(f"/proc/{self._process.pid}/root{self._point}")

    async def _launch(self, namespace: int, log: int) -> None:
        from lading.client.mount.service import launch

        fds = (namespace,) if namespace >= 0 else ()
        work = asyncio.to_thread(launch, self._settings(namespace), log=log, pass_fds=fds)
        launching = asyncio.create_task(work, name="keep mount")
        try:
            # Shielded: a thread cannot be cancelled, and the process that it starts must be known.
            self._process = await asyncio.shield(launching)
        except asyncio.CancelledError:
            # The thread continues; its process is stored, so that close() ends it.
            with contextlib.suppress(Unavailable):
                self._process = await launching
            raise

    def place(self, source: CollectionPath | KeepTree) -> Path:
        """Path of a source for this process."""
        if isinstance(source, KeepTree):
            return self._view / source.path
        return self._view / (BY_ID if self._shows_all else "") / source.pdh / source.path

    def shown(self, path: Path) -> Path:
        """Path for the engine of a `path` of this process."""
        return (
            self._point / path.relative_to(self._view) if path.is_relative_to(self._view) else path
        )

    def say(self, line: str) -> None:
        """Add a line to the container's log."""
        self._log.say(line)

    def note(self, lines: Iterable[str]) -> None:
        """Write how the collections came to the container to the log of the mount."""
        text = "".join(f"{line}\n" for line in lines)
        self._log.stream(KEEP_MOUNT).write(text.encode("utf-8", "backslashreplace"))

    async def ended(self) -> None:
        """Wait until the process of the mount has ended; for ever without one."""
        if self._process is None:
            await asyncio.Event().wait()
        else:
            await linux.ended(self._process.pid)

    async def close(self) -> None:
        """Unmount. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            from lading.client.mount.service import finish

            await asyncio.to_thread(finish, process)
        if self._pump is not None:
            await self._pump.finish(_DRAIN)
            self._pump = None

    def _settings(self, namespace: int) -> MountSettings:
        from lading.client.fd_receiving import lent_beside
        from lading.client.mount.layout import MountView
        from lading.client.mount.service import MountSettings

        config = self._assignment
        return MountSettings(
            mountpoint=str(self._point),
            token=self._token,
            cache_directory=f"{config.cache_directory}/blocks",
            api_socket=config.api_socket,
            api_url=config.api_url,
            api_ca_file=config.api_ca_file,
            api_insecure=config.api_insecure,
            lender=str(lent_beside(config.api_socket)) if config.api_socket else "",
            view=MountView.ALL if self._shows_all else MountView.BY_PDH,
            cache_size=config.cache_size,
            allow_other=True,
            timeout=config.unreachable_timeout,
            namespace=namespace,
            tied=True,
        )


def provided(plan: MountPlan, mounted: frozenset[str], cached: frozenset[str]) -> Iterator[str]:
    """How each collection came to the container, a line each."""
    if plan.keeps:
        yield "keep: mounted, all that the container may read"
    for pdh in plan.collections:
        if pdh in mounted:
            yield f"{pdh}: mounted, read on demand"
        elif pdh in cached:
            yield f"{pdh}: not mounted, in the cache of this machine"
        else:
            yield f"{pdh}: not mounted, downloaded into the cache of this machine"


def lost() -> ExecutionError:
    """Failure of a container whose mount ended while it ran."""
    return ExecutionError(
        "the mount of its collections ended while it ran; its log is arv-mount.txt", Failure.NODE
    )
