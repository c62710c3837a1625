"""Finds the installed fleets by the entry point group `lading.fleets`, so that a third party can
add one.

An entry point names a function from a `FleetSite` to an asynchronous context manager of a fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from lading.config import Config
from lading.core.errors import Invalid
from lading.dispatch.fleet import Fleet

GROUP = "lading.fleets"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSite:
    """Arguments of a function that opens a fleet.

    `token` is the uuid of the dispatcher's token. The directories are this machine's: one directory
    for each container under way, and what may be deleted while nothing runs. `template` has the
    fields of every assignment but the container's own and the way to the server; that is
    `api_socket` on this machine, `api_url` from any other, whose certificate is `certificate` (PEM)
    unless an authority of the machine has signed it.
    """

    config: Config
    token: str
    run_directory: Path
    cache_directory: Path
    template: Mapping[str, object]
    api_url: str
    api_socket: str = ""
    certificate: str = ""
    certificate_path: str = ""


Opener = Callable[[FleetSite], AbstractAsyncContextManager[Fleet]]


def find_fleet(name: str) -> Opener:
    """The opener of the fleet of that name. Raises Invalid naming those that are installed."""
    found = {one.name: one for one in entry_points(group=GROUP)}
    if name not in found:
        raise Invalid(
            f"no fleet {name!r} is installed; there are {', '.join(sorted(found)) or 'none'}"
        )
    opener: Opener = found[name].load()
    return opener


def plans_disk(name: str, config: Config) -> bool:
    """Whether scratch disk is planned on a fleet: always, except on a machine without a configured
    share of disk.
    """
    return name != "local" or config.Local.Scratch > 0
