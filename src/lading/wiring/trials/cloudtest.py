"""`lading cloud test`: the test's key, directory and VMs, and its command.

`trial_server` has the test's own server; `dispatch.fleets.cloud.cloud_selftest` has the steps.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from lading.client.checks import CheckStep
from lading.config.site import Config, load
from lading.core.errors import Invalid
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud import settings as configuration
from lading.dispatch.fleets.cloud.cloud_selftest import Means, Trial
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    find_driver,
)
from lading.dispatch.fleets.cloud.runner import RunnerBuilder
from lading.dispatch.fleets.cloud.settings import CloudSettings
from lading.dispatch.fleets.cloud.ssh_connection import keep_key, public_text, read_key
from lading.dispatch.fleets.cloud.vm_bootstrap import SshBootstrap, VmBootstrap
from lading.wiring.trials.trial_server import Trialled, serving

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTestOptions:
    """Options of the test. Without types the cheapest one is tested; `set_id` "" is derived from
    this machine.

    `listen` is the address of the test server, "" for the address of this machine on the route to
    the VM. With `with_server` false no server is started.
    """

    config: Path
    types: Sequence[str] = ()
    command: str = ""
    set_id: str = ""
    listen: str = ""
    with_server: bool = True


def main(
    options: CloudTestOptions, *, tell: Callable[[CheckStep], None], doing: Callable[[str], None]
) -> bool:
    """Run the test; return whether it succeeded. INT or TERM removes the VMs, then raises
    CancelledError.

    Raises Invalid for an invalid configuration.
    """
    config = load(options.config)
    set_id = options.set_id or f"lading-test-{socket.gethostname()}"
    chosen = configuration.read(config, set_id=set_id, template={})
    types = choose(chosen, options.types)
    key_text = config.Containers.DispatchPrivateKey
    with tempfile.TemporaryDirectory(prefix="lading-cloud-test-") as folder:
        key = read_key(key_text) if key_text else keep_key(Path(folder) / "key")
        # asyncssh logs each connection at INFO, between the lines of the report.
        logging.getLogger("asyncssh").setLevel(logging.WARNING)
        return asyncio.run(_test(config, chosen, types, key, Path(folder), options, tell, doing))


def choose(chosen: CloudSettings, names: Sequence[str]) -> list[InstanceType]:
    """The types with these names; without names the cheapest one. Raises Invalid that lists the
    types.
    """
    if ALL in names:
        return list(chosen.types)
    for name in names:
        if name not in chosen.by_name:
            raise Invalid(
                f"--type {name}: there is no such instance type; "
                f"there are {', '.join(chosen.by_name)}"
            )
    if names:
        return [chosen.by_name[name] for name in names]
    return [min(chosen.types, key=lambda kind: (kind.price, kind.name))]


async def _test(
    config: Config,
    chosen: CloudSettings,
    types: Sequence[InstanceType],
    key: asyncssh.SSHKey,
    folder: Path,
    options: CloudTestOptions,
    tell: Callable[[CheckStep], None],
    doing: Callable[[str], None],
) -> bool:
    end_once(doing)
    cloud = config.Containers.CloudVMs
    site = DriverSite(
        parameters=cloud.DriverParameters,
        tag=chosen.tag("InstanceSetID"),
        set_id=chosen.set_id,
        directory=folder / "vms",
    )
    workshop = RunnerBuilder(folder / "runner")
    async with find_driver(cloud.Driver)(site) as driver:
        trial_inputs = Trialled(
            config=config,
            settings=chosen,
            driver=driver,
            key=key,
            workshop=workshop,
            folder=folder,
            listen=options.listen,
        )
        means = Means(
            settings=chosen,
            driver=driver,
            reach=_reaching(chosen, config.Containers.RuntimeEngine, key, workshop),
            public_key=public_text(key),
            token=lambda: secrets.token_hex(20),
            clock=asyncio.get_running_loop().time,
            key=key,
            command=options.command,
            server=functools.partial(serving, trial_inputs) if options.with_server else None,
        )
        return await Trial(means, tell=tell, doing=doing).run(types)


def _reaching(
    chosen: CloudSettings, engine: str, key: asyncssh.SSHKey, workshop: RunnerBuilder
) -> Callable[[Callable[[str, str], None]], VmBootstrap]:
    def make(passed: Callable[[str, str], None]) -> VmBootstrap:
        return SshBootstrap(
            key=key,
            directory=chosen.directory,
            probe_command=chosen.probe_command,
            engine=engine,
            runner=workshop.get,
            port=chosen.ssh_port,
            passed=passed,
        )

    return make


def end_once(doing: Callable[[str], None], *, resources: str = "VMs") -> None:
    """Let the first INT or TERM end the test; later ones do not stop the removal of its
    `resources`.
    """
    loop, task, heard = asyncio.get_running_loop(), asyncio.current_task(), list[bool]()
    assert task is not None

    def end() -> None:
        doing(f"interrupted: the {resources} of the test are being removed")
        if not heard:
            heard.append(True)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
