"""Access of the servers of an installation to containers, and to each other about them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from lading.api.container_access.direct_hosts import DirectHosts
from lading.api.container_access.log_spool import Spool
from lading.api.container_access.supervisor_registry import Supervisors, Tunnels
from lading.config.site import Config
from lading.core.containers import sessions
from lading.core.containers.container import Container
from lading.net.pipes import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerAccess:
    """The ways to containers: the logs of the running ones, their supervisors and gateways."""

    config: Config
    spool: Spool
    certificate: Path | None = None
    """The certificate of this server and of those that share its database (PEM); None: one that the
    machine trusts.
    """
    tunnels: Tunnels = field(default_factory=Tunnels)
    supervisors: Supervisors = field(default_factory=Supervisors)
    direct_hosts: DirectHosts = field(default_factory=DirectHosts)
    turns: Turns = field(default_factory=Turns)
    """Shares the event loop between the bytes of all sessions and the calls."""

    def gateway_key(self, container_uuid: str) -> str:
        """The key that the servers share with the gateway of a container."""
        return sessions.container_key(self.config.SystemRootToken, container_uuid)

    def gateway_keys(self, container: Container) -> tuple[str, ...]:
        """The keys that the gateway of a container may share with the servers, the most likely one
        first.
        """
        supervisor = self.supervisors.find(container)
        own = (supervisor.key,) if supervisor is not None and supervisor.key else ()
        return tuple(dict.fromkeys((*own, self.gateway_key(container.uuid))))

    @property
    def forward_key(self) -> bytes:
        """The key with which servers of one installation sign the calls that they forward to each
        other.
        """
        return hashlib.sha256(b"forwarded calls:" + self.config.SystemRootToken.encode()).digest()

    @property
    def gateway_hosts(self) -> tuple[str, ...]:
        """Networks and hosts of gateways, beside the addresses of their supervisors."""
        containers = self.config.Containers
        host = containers.GatewayAddress.rpartition(":")[0].strip("[]")
        return (*containers.GatewayHosts, *((host,) if host else ()))

    @property
    def shell_access(self) -> tuple[bool, bool]:
        """Whether admins, and whether users, may open sessions in containers."""
        access = self.config.Containers.ShellAccess
        return access.Admin, access.User
