"""Opens the fleet of cloud VMs as the configuration says, with its driver and its management."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from lading.dispatch.fleet import FleetSite
from lading.dispatch.fleets.cloud import settings as configuration
from lading.dispatch.fleets.cloud.cloud_fleet import CloudFleet
from lading.dispatch.fleets.cloud.drivers.driver import DriverSite, find_driver
from lading.dispatch.fleets.cloud.instance_journal import InstanceJournal
from lading.dispatch.fleets.cloud.management import managing
from lading.dispatch.fleets.cloud.runner import RunnerBuilder
from lading.dispatch.fleets.cloud.spot_losses import losses_of
from lading.dispatch.fleets.cloud.ssh_connection import keep_key, public_text, read_key
from lading.dispatch.fleets.cloud.vm_bootstrap import SshBootstrap
from lading.process.concurrency import cancel_all
from lading.process.telemetry import event

_logger = logging.getLogger("lading.dispatch.fleets.cloud")


@asynccontextmanager
async def open_cloud(site: FleetSite) -> AsyncGenerator[CloudFleet]:
    """The fleet of VMs, from the configuration. Raises Invalid for a configuration that cannot
    be.
    """
    cloud = site.config.Containers.CloudVMs
    home = site.run_directory.parent / "cloud"
    loop = asyncio.get_running_loop()
    template = {**site.template, "api_url": site.api_url}
    chosen = configuration.read(site.config, set_id=site.token, template=template)
    key_text = site.config.Containers.DispatchPrivateKey
    key = read_key(key_text) if key_text else keep_key(home / "dispatch-key")
    certificate = None
    if site.certificate:
        certificate = home / "server.crt"
        certificate.parent.mkdir(parents=True, exist_ok=True)
        certificate.write_text(site.certificate)
    reach = SshBootstrap(
        key=key,
        directory=chosen.directory,
        probe_command=chosen.probe_command,
        engine=site.config.Containers.RuntimeEngine,
        runner=RunnerBuilder(site.cache_directory / "runner").get,
        certificate=certificate,
        port=chosen.ssh_port,
    )
    of_driver = DriverSite(
        parameters=cloud.DriverParameters,
        tag=chosen.tag("InstanceSetID"),
        set_id=site.token,
        directory=home / "vms",
    )
    # asyncssh logs the text of every command, which would include the whole agent.
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    async with find_driver(cloud.Driver)(of_driver) as driver:
        fleet = CloudFleet(
            chosen, driver, reach, public_key=public_text(key),
            certificate_path=reach.certificate_path, clock=loop.time, prefix=f"{site.token[-5:]}-",
            journal=InstanceJournal(home / "instances.json"),
            losses=losses_of(driver, home / "spot-losses.json", clock=loop.time),
        )  # fmt: skip
        fleet.pool.check_lease = site.check
        serving = asyncio.create_task(fleet.serve(), name="VMs")
        try:
            facts = {"driver": cloud.Driver, "set": site.token, "types": len(chosen.types)}
            event(_logger, "cloud opened", **facts)
            async with AsyncExitStack() as stack:
                if cloud.ManagementAddress:
                    at = await stack.enter_async_context(
                        managing(fleet, cloud.ManagementAddress, site.config.ManagementToken)
                    )
                    event(_logger, "management", url=at)
                yield fleet
        finally:
            await cancel_all(serving)
