"""The engine of this machine, by its configuration and by what is found here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lading.config.containers import Containers
from lading.config.site import Config
from lading.supervisor.engines import AUTOMATIC, NATIVE
from lading.supervisor.engines.choice import EngineSearch
from lading.wiring import machine_checks
from lading.wiring.checked_machine import CheckedMachine

# The engines that make the networks of their containers themselves.
_WITH_NETWORKS = (AUTOMATIC, NATIVE, "native-crun")


def engine_search(containers: Containers, *, directory: Path | None = None) -> EngineSearch:
    """The search for the engine of this machine, with the sockets of the configuration. `directory`
    is the data directory, if it is known.
    """
    search = EngineSearch(
        docker_socket=containers.DockerSocket, podman_socket=containers.PodmanSocket
    )
    return search if directory is None else replace(search, directory=directory)


def internet_fault(engine: str, directory: Path) -> Callable[[], str]:
    """A function that tells why containers of an engine have no internet here, with the mend, or
    "". Docker and podman have networks of their own. `directory` is the data directory.
    """
    if engine not in _WITH_NETWORKS:
        return lambda: ""
    machine = CheckedMachine(data=directory, user=os.geteuid())
    return lambda: machine_checks.internet_fault(machine)


def with_engine(config: Config, name: str, search: EngineSearch) -> Config:
    """The configuration with the engine that `search` finds, if the fleet is this machine."""
    if name != "local":
        return config
    containers = config.Containers
    choice = search.choose(containers.RuntimeEngine)
    if choice.name == NATIVE and choice.is_rootless:
        # The forkserver then enters the namespaces of an ordinary user.
        return replace(config, Containers=replace(containers, RuntimeEngine=NATIVE))
    if not choice.socket:
        # The configured one, native, or none: then that is what each container reports.
        return config
    if choice.name == "podman":
        changed = replace(containers, RuntimeEngine=choice.name, PodmanSocket=choice.socket)
    else:
        changed = replace(containers, RuntimeEngine=choice.name, DockerSocket=choice.socket)
    return replace(config, Containers=changed)
