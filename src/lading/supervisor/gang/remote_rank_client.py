"""Remote ranks: for a gang on several machines, one process on each further machine prepares and
starts a rank there.

The supervisor starts them with the command of its assignment (`annex_command`), or connects to
listeners (`rank_launcher`), sends each its invitation, and passes their pipes to the conductor
(`hpc.remote_ranks`). A remote rank ends with its pipe, so none outlives the supervisor.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from lading.core.errors import ExecutionError, Failure
from lading.net import rpc
from lading.supervisor.engines import Spread
from lading.supervisor.gang.mutual_tls import HandshakeState
from lading.supervisor.supervisor_config import SupervisorConfig

RANK = "{rank}"
# VXLAN network identifiers have 24 bits (RFC 7348, section 5).
_MOST_WIRES = 1 << 24
# Seconds for a remote rank to end by itself.
_LEAVE_TIME = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """First message to a remote rank: its rank, the network number, the assignment of the first
    machine.
    """

    rank: int
    wire: int
    assignment: SupervisorConfig
    certificate: str = ""
    """Contents of the assignment's `api_ca_file`."""


class RemoteRankClient:
    """The remote ranks of one gang. Each has `leave_time` seconds to end by itself."""

    def __init__(self, assignment: SupervisorConfig, *, leave_time: float = _LEAVE_TIME) -> None:
        self._assignment, self._leave_time = assignment, leave_time
        self._processes: list[subprocess.Popen[bytes]] = []
        # Random, so that gangs on the same machines have different networks.
        self._wire = 1 + secrets.randbelow(_MOST_WIRES - 1)

    def open(self, nodes: int) -> Spread | None:
        """Start them; None when the gang is on this machine alone. Raises ExecutionError."""
        command, outposts = self._assignment.annex_command, self._assignment.outposts
        if outposts is not None:
            command = (sys.executable, "-m", "lading.supervisor", "--line")
        if nodes == 1 or not command:
            return None
        if outposts is not None and len(outposts.ranks) != nodes - 1:
            raise ExecutionError(
                f"there are {len(outposts.ranks)} outposts for {nodes - 1} further ranks"
            )
        try:
            for rank in range(1, nodes):
                self._start([word.replace(RANK, str(rank)) for word in command], rank)
        except OSError as error:
            raise ExecutionError(f"{command[0]} cannot be run: {error}", Failure.NODE) from error
        pipes = [(one.stdout, one.stdin) for one in self._processes]
        ends = tuple(
            (out.fileno(), into.fileno())
            for out, into in pipes
            if out is not None and into is not None
        )
        return Spread(wire=self._wire, pipes=ends)

    def hand_over(self) -> None:
        """Close the pipes here: the conductor has its own copies."""
        for process in self._processes:
            for end in (process.stdin, process.stdout):
                if end is not None:
                    # Buffered bytes for a process that has ended.
                    with contextlib.suppress(BrokenPipeError):
                        end.close()

    def close(self) -> None:
        """Wait for their end, or end them. Idempotent."""
        self.hand_over()
        for process in self._processes:
            try:
                process.wait(self._leave_time)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
        self._processes.clear()

    def _start(self, command: list[str], rank: int) -> None:
        config = self._assignment
        certificate = Path(config.api_ca_file).read_text() if config.api_ca_file else ""
        alone = replace(config, outposts=None)
        lines: list[object] = [
            Invitation(rank=rank, wire=self._wire, assignment=alone, certificate=certificate)
        ]
        if config.outposts is not None:
            address, port = config.outposts.ranks[rank - 1]
            known = {"certificate": config.outposts.certificate, "key": config.outposts.key}
            lines.insert(0, HandshakeState(address=address, port=port, **known))
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._processes.append(process)
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                # A process that has ended has reported its reason.
                for line in lines:
                    rpc.write_line(process.stdin.fileno(), line)
