"""The engine of this machine, by its configuration and by what is found here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lading.config.containers import Containers
from lading.config.site import Config
from lading.supervisor.engines import NATIVE
from lading.supervisor.engines.choice import EngineSearch


def engine_search(containers: Containers, *, directory: Path | None = None) -> EngineSearch:
    """The search for the engine of this machine, with the sockets of the configuration. `directory`
    is the data directory, if it is known.
    """
    search = EngineSearch(
        docker_socket=containers.DockerSocket, podman_socket=containers.PodmanSocket
    )
    return search if directory is None else replace(search, directory=directory)


def with_engine(config: Config, name: str, search: EngineSearch) -> Config:
    """The configuration with the engine that `search` finds, if the fleet is this machine."""
    if name != "local":
        return config
    containers = config.Containers
    choice = search.choose(containers.RuntimeEngine)
    if choice.name == NATIVE and choice.is_rootless:
        # The warm parent then enters the namespaces of an ordinary user.
        return replace(config, Containers=replace(containers, RuntimeEngine=NATIVE))
    if not choice.socket:
        # The configured one, native, or none: then that is what each container reports.
        return config
    if choice.name == "podman":
        changed = replace(containers, RuntimeEngine=choice.name, PodmanSocket=choice.socket)
    else:
        changed = replace(containers, RuntimeEngine=choice.name, DockerSocket=choice.socket)
    return replace(config, Containers=changed)
