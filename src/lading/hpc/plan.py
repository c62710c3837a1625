"""The plan of a cluster, from supervisor to conductor, and the credentials of its daemons.

The plan is JSON in a file that only these two can read.

The credentials are a certificate, a key and an authorization for each daemon, and one ssh key for
all. They are new for each cluster, kept in memory and in the containers only, and useless when the
cluster has ended. Times are arguments, and secrets come from `secrets`. Source:
docs/spec/hpc-daemon, section Clusters.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lading.core.hpc.daemon_configuration import KILL_GRACE
from lading.core.hpc.gang import FailurePolicy, Launcher
from lading.net.certificates import make_certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """One cluster. Paths are this machine's, but for `cwd` and `output_path`, which are the
    containers'.

    `bundles`: an OCI bundle for each rank, without the values that differ between ranks. `crun`:
    its command and options. `spool`: a directory that no container sees, for files of the output
    (`supervisor.gang.gang_output`): files `<rank>.stdout`, `<rank>.stderr`, `<rank>.tar`. `fault`:
    the file for the reason when nothing could be run.
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
    (`hpc.ranks`).
    """
    files: dict[str, str] = field(default_factory=dict)
    """Files of this machine that every rank gets a copy of, by name."""
    notices: int = 2
    """Descriptor for lines about the events of ranks."""
    stop_grace: float = KILL_GRACE
    """Seconds between TERM and KILL of a rank's code."""

    def write(self, path: Path) -> None:
        """Write the plan. Raises OSError."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))


def read_plan(path: Path) -> ClusterPlan:
    """Read a plan. Raises OSError; ValueError, KeyError or TypeError for a malformed one."""
    content: dict[str, Any] = json.loads(path.read_text())
    lists = {name: tuple(content[name]) for name in ("bundles", "crun", "command")}
    environment = tuple((name, value) for name, value in content["environment"])
    kinds = {"launcher": Launcher(content["launcher"]), "policy": FailurePolicy(content["policy"])}
    pipes = tuple((reading, writing) for reading, writing in content.get("pipes", ()))
    return ClusterPlan(**{**content, **lists, **kinds, "environment": environment, "pipes": pipes})


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials of one daemon: PEM texts, and the authorization that every call must carry."""

    certificate: str
    key: str = field(repr=False)
    authorization: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SshKeys:
    """The key pair that all containers of a cluster share."""

    private: str = field(repr=False)
    public: str


def make_identity(name: str, *, now: datetime) -> Identity:
    """A self-signed certificate for a daemon that is called `name`."""
    certificate, key = make_certificate(name, now=now)
    return Identity(certificate, key, secrets.token_hex(16))


def make_ssh_keys() -> SshKeys:
    """Make a key pair in the format of OpenSSH."""
    private = ed25519.Ed25519PrivateKey.generate()
    private_text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return SshKeys(private_text.decode(), f"{public.decode()} cluster\n")
