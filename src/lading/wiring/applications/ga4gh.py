"""Makes TES and WES of a server, and the worker on the transfers of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Receive, Scope, Send

from lading.api.server.policy import has_preemptible
from lading.client.images.runner import DEFAULT_VERSION, image_name
from lading.client.transport import Transport
from lading.config.site import Config
from lading.core import ids
from lading.core.containers.container_network import read_networks
from lading.core.tes.file_roots import FileRoot, make_roots
from lading.core.tes.mapping import TaskSite
from lading.net.outside_way import OutsideNetwork
from lading.store.database import Database
from lading.store.transfers import StoredTransfers
from lading.tes.app import make_app as make_tes
from lading.tes.exchange import ServiceIdentity
from lading.tes.tasks import Tasks
from lading.tes.transfers.fetching import TransferRules
from lading.tes.transfers.worker import TransferSite, TransferWorker
from lading.tes.wes_app import make_app as make_wes
from lading.tes.wes_app import owns as owns_run_path

# Seconds after the creation of a task in which a FULL view of it waits for its end: some clients
# that read the logs of a short task right after its creation.
_FULL_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Ga4ghServices:
    """The application for TES and WES, and the worker, which runs beside it."""

    app: ASGIApp
    worker: TransferWorker


def make_ga4gh(transport: Transport, config: Config, database: Database) -> Ga4ghServices:
    """TES and WES for the API and the block store that `transport` leads to. Raises Invalid for a
    wrong configuration.
    """
    settings, roots = config.TES, make_roots(config.TES.FileRoots)
    # The same on all servers of an installation, which serve each other's pages.
    secret = config.Collections.BlobSigningKey.encode()
    identity = ServiceIdentity(cluster=config.ClusterID, url=config.ExternalURL)
    zones = {str(name): str(zone) for name, zone in settings.Zones.items()}
    journal = StoredTransfers(database)
    worker = TransferWorker(transport, journal, transfer_site(config, roots), clock=_now)
    tasks = Tasks(
        transport,
        journal,
        worker,
        site=TaskSite(
            preemptible=has_preemptible(config), reuse=settings.Reuse, roots=roots, zones=zones
        ),
        secret=secret,
        clock=_now,
        full_wait=_FULL_WAIT,
    )
    tes = make_tes(tasks, settings, identity, roots=roots)
    wes = make_wes(
        transport,
        settings,
        identity,
        image=image_name(DEFAULT_VERSION),
        engine_version=DEFAULT_VERSION,
        secret=secret,
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (wes if owns_run_path(scope["path"]) else tes)(scope, receive, send)

    return Ga4ghServices(app, worker)


def transfer_site(config: Config, roots: tuple[FileRoot, ...]) -> TransferSite:
    """The settings of transfers."""
    settings = config.TES
    allowed = read_networks(settings.AllowedNetworks, key="TES.AllowedNetworks")
    return TransferSite(
        root_token=config.SystemRootToken,
        system_user=ids.system_user(config.ClusterID),
        roots=roots,
        network=OutsideNetwork(allowed=allowed),
        rules=TransferRules(min_rate=settings.MinTransferRate, most=settings.MaxObjectSize),
        most=settings.MaxTransfers,
        lifetime=settings.InputLifetime,
        endpoint=settings.S3Endpoint,
        region=settings.S3Region,
    )


def _now() -> datetime:
    return datetime.now(UTC)
