"""The engine of this machine, by its configuration and by what is found here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lading.config.containers import Containers
from lading.config.site import Config
from lading.supervisor.engines import NATIVE
from lading.supervisor.engines.choice import EngineChoice, EngineSearch


def engine_search(
    containers: Containers, *, directory: Path | None = None
) -> Callable[[], EngineChoice]:
    """A function that finds the engine of this machine. `directory` is the data directory, if it is
    known.
    """
    search = EngineSearch(
        docker_socket=containers.DockerSocket, podman_socket=containers.PodmanSocket
    )
    if directory is not None:
        search = replace(search, directory=directory)
    return lambda: search.choose(containers.RuntimeEngine)


def with_engine(config: Config, name: str) -> Config:
    """The configuration with the engine that was found, if the fleet is this machine."""
    if name != "local":
        return config
    containers = config.Containers
    found = engine_search(containers)()
    if found.name == NATIVE and found.is_rootless:
        # The warm parent then enters the namespaces of an ordinary user.
        return replace(config, Containers=replace(containers, RuntimeEngine=NATIVE))
    if not found.socket:
        # The configured one, native, or none: then that is what each container reports.
        return config
    if found.name == "podman":
        changed = replace(containers, RuntimeEngine=found.name, PodmanSocket=found.socket)
    else:
        changed = replace(containers, RuntimeEngine=found.name, DockerSocket=found.socket)
    return replace(config, Containers=changed)
