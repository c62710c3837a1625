"""The server made of its parts: the values that all calls need, and the states of features."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from lading.api.app import Application
from lading.api.container_access.access import ContainerAccess
from lading.api.container_access.log_spool import Spool
from lading.api.container_access.supervisor_registry import Tunnels
from lading.api.logins import access_tokens
from lading.api.logins.authentication import ACCEPT_TOKEN
from lading.api.logins.provider_client import PROVIDER, OpenIdClient
from lading.api.mounts.git_cache import GIT, GitCache
from lading.api.server.blocks import STORAGE, Blocks
from lading.api.server.identifiers import ApiClock, Identifiers
from lading.api.server.machine_board import MACHINES, OwnMachines, SharedMachines
from lading.api.server.policy import make_policy
from lading.api.server.vocabulary import VOCABULARY, load_vocabulary
from lading.api.server.wait_statuses import STATUSES, OwnStatuses, SharedStatuses
from lading.api.services import ApiServices, Events
from lading.api.webhooks.mail import Mailer
from lading.api.webhooks.receivers import WEBHOOK_SENDER, OutsideSender, WebhookSender
from lading.client.transport import HttpTransport, Transport
from lading.config.site import Config
from lading.core.containers.disk_space import Amount
from lading.core.records.schema import Record
from lading.core.resources import MIB
from lading.net.outside_way import OutsideNetwork
from lading.net.pacing import Pacer
from lading.net.pipes import Turns
from lading.store.database import Database

# Bytes a second left to all sessions beside calls.
_SESSION_RATE = 8 * MIB


def make_app(
    database: Database,
    config: Config,
    *,
    clock: Callable[[], datetime],
    entropy: Callable[[int], bytes],
    blocks: Blocks,
    live: Path,
    repositories: Path | None = None,
    certificate: Path | None = None,
    connect: Callable[[str], Transport] = HttpTransport,
    storage: Callable[[], Awaitable[Record]] | None = None,
    webhook_sender: WebhookSender | None = None,
) -> Application:
    """The metadata server; it owns the paths /arvados/, /discovery/, /websocket (also as a
    websocket) and /_health/.

    `clock()` is the present time with its zone; `entropy(n)` gives n random bytes; `blocks` are
    those of this server, for saved logs and small results; `live` is a directory for the logs of
    running containers, `repositories` one for mirrors of git repositories (beside `live` if it is
    not given); `certificate` identifies the servers to each other; `connect` makes a transport to
    an origin, for the provider at which people log in; `webhook_sender` sends events, by HTTP
    and SMTP if it is not given. The caller prepares the database (`store.schema.prepare`,
    `Application.bootstrap`) and closes it; `Application.tend` runs beside the server.
    """
    watch = ApiClock(clock)
    services = ApiServices(
        database=database,
        config=config,
        policy=make_policy(config),
        clock=watch,
        ids=Identifiers(
            watch, entropy, cluster=config.ClusterID, root_token=config.SystemRootToken
        ),
        blocks=blocks,
        events=Events(),
        access=_make_access(config, live, certificate),
    )
    features = services.features
    features[VOCABULARY] = load_vocabulary(config.API.VocabularyPath)
    features[STATUSES] = SharedStatuses(database) if database.shared else OwnStatuses()
    features[MACHINES] = SharedMachines(database) if database.shared else OwnMachines()
    features[GIT] = GitCache(
        repositories or live.parent / "repositories",
        timeout=config.Containers.GitTimeout,
        size=config.Containers.GitCacheSize,
    )
    features[WEBHOOK_SENDER] = webhook_sender or _make_sender(config, clock)
    features[STORAGE] = storage
    login = config.Login.OpenIDConnect
    if login.Enable:
        features[PROVIDER] = OpenIdClient(login, clock=lambda: clock().timestamp(), connect=connect)
    if login.Enable and login.AcceptAccessToken:
        features[ACCEPT_TOKEN] = access_tokens.accept
    return Application(services)


def _make_access(config: Config, live: Path, certificate: Path | None) -> ContainerAccess:
    containers = config.Containers
    return ContainerAccess(
        config=config,
        spool=Spool(live, disk_reserve=Amount(containers.DiskReserve, containers.DiskReserveFiles)),
        certificate=certificate,
        tunnels=Tunnels(most=config.API.MaxGatewayTunnels),
        turns=Turns(pacer=Pacer(_SESSION_RATE)),
    )


def _make_sender(config: Config, clock: Callable[[], datetime]) -> OutsideSender:
    settings = config.Webhooks
    network = OutsideNetwork(
        allowed=tuple(settings.AllowedNetworks), key="Webhooks.AllowedNetworks"
    )
    return OutsideSender(network, Mailer(config.Mail), timeout=settings.Timeout, clock=clock)
