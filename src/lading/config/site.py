"""The configuration of a site: all sections, read from a file, and exported to clients.

Key names are those of Arvados' configuration where the feature is the same. `load` is the only
reader of configuration files; the reference in `docs/` is generated from the declarations. Sizes
are bytes, times are seconds; a file may write them as `64MiB` or `336h`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from lading.config import sections
from lading.config.containers import Containers
from lading.config.instance_types import InstanceTypeSettings
from lading.config.local import Local
from lading.config.log_lines import SystemLogs, Tracing
from lading.config.logins import LoginSettings, Users
from lading.config.sections import key, section
from lading.config.server import API, AuditLogs, PostgreSQL, Services, SQLite
from lading.config.storage import S3, Collections, VolumeSettings
from lading.config.tasks import TES
from lading.config.webhooks import Mail, Webhooks
from lading.core.errors import Invalid

RETIRED: Final = frozenset(
    {
        "API.MaxRequestHeadSize",
        "API.MaxTransferShare",
        "API.MaxUnauthenticatedBodies",
        "API.MaxUnauthenticatedBody",
        "API.MinSessionRate",
        "Containers.Kubernetes.ResyncInterval",
        "Containers.UnreachableTimeout",
        "Containers.UsageInterval",
        "TES.FullViewWait",
        "TES.LegacyStates",
    }
)
"""Keys of earlier versions that are constants now: a configuration that has one gets a warning."""
_logger = logging.getLogger("lading.config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration. `lading up` needs none of it."""

    ClusterID: str = key("", "Five lower-case letters or digits; made at first start.")
    SystemRootToken: str = key("", "Secret of the system user; made at first start.", private=True)
    ManagementToken: str = key(
        "", "Secret for health and metrics; made at first start.", private=True
    )
    ExternalURL: str = key("", "Address that clients use; follows `--listen`.", private=True)
    StorageClasses: dict[str, dict[str, Any]] = key(
        {"default": {"Default": True}}, "Storage classes by name."
    )
    Volumes: dict[str, VolumeSettings] = key(
        {},
        "Volumes of the block store by uuid; none is the directory `blocks` in the data directory.",
        private=True,
    )
    InstanceTypes: dict[str, InstanceTypeSettings] = key({}, "Kinds of VMs by name.")
    API: API = section(API)
    SystemLogs: SystemLogs = section(SystemLogs)
    Tracing: Tracing = section(Tracing)
    AuditLogs: AuditLogs = section(AuditLogs)
    Collections: Collections = section(Collections)
    S3: S3 = section(S3)
    Containers: Containers = section(Containers)
    Local: Local = section(Local)
    Services: Services = section(Services)
    Login: LoginSettings = section(LoginSettings)
    Users: Users = section(Users)
    PostgreSQL: PostgreSQL = section(PostgreSQL)
    SQLite: SQLite = section(SQLite)
    TES: TES = section(TES)
    Webhooks: Webhooks = section(Webhooks)
    Mail: Mail = section(Mail)


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration in the YAML file `path` (none is all defaults), with `overrides` on top.

    A key of RETIRED has no effect; a warning names it. Raises Invalid naming the key when a key is
    unknown or a value has the wrong type.
    """
    text = path.read_text() if path else ""
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise Invalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise Invalid(f"{path}: the configuration must be a mapping of keys")
    keys, ignored = sections.without(sections.merge(raw, overrides or {}), RETIRED)
    for name in ignored:
        _logger.warning("configuration: %s has no effect any more; remove it", name)
    return sections.build(Config, keys)


def export(config: Config) -> dict[str, Any]:
    """The public part of the configuration as plain values (docs/spec/api, section Exported
    configuration).
    """
    return sections.export(config)
