"""Which VMs the further ranks of gangs are on that are spread over several (`Machine.posts` says
how many).
"""

from __future__ import annotations

from collections.abc import Iterator

from lading.dispatch.fleets.cloud.machine import Machine


class Crews:
    """VMs by container. Iterating gives the containers."""

    def __init__(self) -> None:
        self._machines: dict[str, dict[str, Machine]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._machines)

    def join(self, uuid: str, machine: Machine) -> None:
        """Ranks of a gang are on a VM."""
        self._machines.setdefault(uuid, {})[machine.key] = machine

    def leave(self, uuid: str, machine: Machine) -> None:
        """They are not there any more."""
        there = self._machines.get(uuid, {})
        there.pop(machine.key, None)
        if not there:
            self._machines.pop(uuid, None)

    def machines(self, uuid: str) -> list[Machine]:
        """The VMs of a gang."""
        return list(self._machines.get(uuid, {}).values())

    def names(self, uuid: str) -> list[str]:
        """Their names, each as often as ranks are there."""
        return [one.name for one in self.machines(uuid) for _ in range(one.posts.get(uuid, 0))]
