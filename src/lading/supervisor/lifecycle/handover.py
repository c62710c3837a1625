"""Everything that another supervisor needs to go on with a running container.

A supervisor hands it over to the process that started it, once the command has run for a moment. It
is a file in memory, and descriptors: the pidfd of the process that runs the container, the mount
namespace, the ends of the command's pipes, and all locks and leases. They stay open there, so that
nothing is lost between the end of one supervisor and the start of the next: no pipe of the command
breaks, no other container gets its user ids, no cache removes its image or inputs. The file has
tokens, so it is never on disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import structs

from lading.core.containers.disk_space import Amount
from lading.core.errors import Malformed
from lading.core.scheduling.resumption import can_be_resumed
from lading.supervisor import linux
from lading.supervisor.engines.adoption import PROCESS, AdoptingEngine, RunningContainer
from lading.supervisor.lifecycle.run import ContainerRun, HandOver
from lading.supervisor.supervisor_config import SupervisorConfig

MOUNTS: Final = "mounts"
"""Name of the descriptor of the mount namespace."""
MOST_DESCRIPTORS: Final = 100
"""A container that needs more than these, with the file, is not handed over."""
# Seconds for which a command runs before it is handed over: shorter ones cost nothing.
DELAY: Final = 0.2
_STREAM, _INPUT = "stream ", "input "
_logger = logging.getLogger("lading.supervisor")


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file. `names` are those of the further descriptors, in their order."""

    config: SupervisorConfig
    container: RunningContainer
    base: tuple[int, int]
    """Bytes and files that its disk held before it began."""
    names: tuple[str, ...]


class ReceivedHandover(msgspec.Struct, frozen=True, kw_only=True):
    """A handover in the process that goes on with the container."""

    config: SupervisorConfig
    container: RunningContainer
    base: Amount
    descriptors: Mapping[str, int]

    @property
    def streams(self) -> dict[str, int]:
        """Reading ends of the pipes of the command, by the names of the log's files."""
        return {
            name.removeprefix(_STREAM): descriptor
            for name, descriptor in self.descriptors.items()
            if name.startswith(_STREAM)
        }


def offer(run: ContainerRun, hand_over: HandOver) -> None:
    """Hand a running container over, if another supervisor could go on with it: first the file,
    then the descriptors that it names.
    """
    engine, preparation = run.engine, run.preparation
    is_mounted = preparation.keep is not None and preparation.keep.is_open
    if is_mounted or not isinstance(engine, AdoptingEngine):
        return
    if not can_be_resumed(run.session.container) or (running := engine.running()) is None:
        return
    container, descriptors = running
    descriptors |= {_STREAM + pump.name: pump.reading for pump in run.pumps if pump.reading >= 0}
    if preparation.inputs is not None:
        leases = sorted(preparation.inputs.cache.leases)
        descriptors |= {f"{_INPUT}{number}": lease for number, lease in enumerate(leases)}
    if len(descriptors) + 3 > MOST_DESCRIPTORS:
        return
    opened: list[int] = []
    try:
        # It cannot be another process: this one has not collected the end of its child.
        opened.append(os.pidfd_open(container.pid))
        opened.append(os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        named = {PROCESS: opened[0], MOUNTS: opened[1], **descriptors}
        handover = Handover(
            config=structs.replace(run.config, records={}, is_started=True),
            container=container,
            base=(preparation.base.size, preparation.base.files),
            names=tuple(named),
        )
        opened.append(linux.memory_file("handover", msgspec.json.encode(handover)))
        hand_over((opened[-1], *named.values()))
    except OSError as error:
        # The container goes on; only the end of its supervisor would end it.
        _logger.warning("container=%s not handed over: %s", run.config.container_uuid, error)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def receive(descriptors: Sequence[int]) -> ReceivedHandover:
    """Read a handover. Raises Malformed, OSError."""
    file, *others = descriptors
    content = os.pread(file, os.fstat(file).st_size, 0)
    try:
        handover = msgspec.json.decode(content, type=Handover)
        named = dict(zip(handover.names, others, strict=True))
    except ValueError as error:
        raise Malformed(f"the handover of a container cannot be read: {error}") from error
    return ReceivedHandover(
        config=handover.config,
        container=handover.container,
        base=Amount(*handover.base),
        descriptors=named,
    )
