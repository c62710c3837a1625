"""The plan of a cluster from the supervisor to the conductor: JSON in a file that only they can
read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lading.core.hpc.gang import FailurePolicy, Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """One cluster. Paths are this machine's, but for `cwd` and `output_path`, which are the
    containers'.

    `bundles`: an OCI bundle for each rank, complete but for what makes it a rank. `crun`: its
    command and options. `spool`: a directory that no container sees, for what belongs in the output
    (`supervisor.gang.gang_output`): files `<rank>.stdout`, `<rank>.stderr`, `<rank>.tar`.
    `fault`: where to say why nothing could be run.
    """

    name: str
    bundles: tuple[str, ...]
    crun: tuple[str, ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    cwd: str
    output_path: str
    spool: str
    fault: str
    slots: int
    launcher: Launcher
    policy: FailurePolicy
    docker: dict[str, Any] | None = None
    """`socket`, `config` of a container, `options` of the network, and whether to `enter` that of
    rank 0: the ranks are containers of that daemon, and `bundles` are not used.
    """
    wire: int = 0
    """The number of the wire between the machines of a gang that is on several; 0: it is on this
    one.
    """
    pipes: tuple[tuple[int, int], ...] = ()
    """Descriptors to read from, and write to, the annexes of ranks 1, 2 ..."""
    annex: dict[str, Any] | None = None
    """`rank` and `leader` (address of the conductor's machine): this is an annex
    (`hpc.remote_rank_agent`).
    """
    notices: int = 2
    """Descriptor for lines on what the ranks do."""

    def write(self, path: Path) -> None:
        """Raises OSError."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))


def read_plan(path: Path) -> ClusterPlan:
    """Raises OSError, ValueError, KeyError or TypeError for what is no plan."""
    content: dict[str, Any] = json.loads(path.read_text())
    lists = {name: tuple(content[name]) for name in ("bundles", "crun", "command")}
    environment = tuple((name, value) for name, value in content["environment"])
    kinds = {"launcher": Launcher(content["launcher"]), "policy": FailurePolicy(content["policy"])}
    pipes = tuple((reading, writing) for reading, writing in content.get("pipes", ()))
    return ClusterPlan(**{**content, **lists, **kinds, "environment": environment, "pipes": pipes})
