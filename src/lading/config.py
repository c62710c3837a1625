"""The one configuration: typed, frozen, documented where it is declared.

Key names are those of Arvados' configuration where the feature is the same. `load` is the only reader of
configuration files; the reference in `docs/` is generated from these declarations. Sizes are bytes, times are
seconds; a file may write them as `64MiB` or `336h`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from lading.core.errors import Invalid

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_Section = TypeVar("_Section")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?")
_TIME = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")
_UNITS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": 1 << 40}


def key(default: Any, doc: str, *, private: bool = False, unit: str = "") -> Any:
    """Declare one configuration key.

    `doc` is one sentence for the reference; a `private` key is never exported to clients; `unit` is "bytes"
    or "seconds" for numbers that a file may write with a suffix.
    """
    metadata = {"doc": doc, "private": private, "unit": unit}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class API:
    """Limits of the metadata server."""

    MaxRequestSize: int = key(128 * MIB, "Largest request body.", unit="bytes")
    MaxItemsPerResponse: int = key(1000, "Most items in one list answer; a larger `limit` is lowered to it.")
    RequestTimeout: float = key(300.0, "Time after which a request is given up.", unit="seconds")
    VocabularyPath: str = key("", "JSON file with the vocabulary of properties; none is no rules.", private=True)
    MaxTokenLifetime: float = key(0.0, "Longest life of a token that a user makes; 0 is unlimited.", unit="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogs:
    """The trail of what happened to records."""

    MaxAge: float = key(1209600.0, "Age at which rows of the trail are deleted; 0 keeps them.", unit="seconds")
    MaxDeleteBatch: int = key(1000, "Most rows that one transaction deletes; 0 never deletes any.")
    UnloggedAttributes: list[str] = key(["manifest_text"], "Attributes that are left out of the trail.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collections:
    """Blocks and collections."""

    BlobSigning: bool = key(True, "Require a permission signature on every block locator.")
    BlobSigningKey: str = key("", "Secret that signs block locators.", private=True)
    BlobSigningTTL: float = key(1209600.0, "Life of a permission signature.", unit="seconds")
    DefaultReplication: int = key(1, "Copies of a block that are stored when a client does not say.")
    DefaultTrashLifetime: float = key(1209600.0, "Time between trash and deletion.", unit="seconds")
    ForwardSlashNameSubstitution: str = key("", "What clients put in place of `/` in names.")
    TrashSweepInterval: float = key(60.0, "Time between two sweeps of the trash.", unit="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """How containers are requested, retried and run."""

    MaxDispatchAttempts: int = key(10, "Locks after which a container that never starts is cancelled.", private=True)
    MaxRetryAttempts: int = key(3, "Default of `container_count_max`: containers tried for one request.")
    DefaultKeepCacheRAM: int = key(0, "RAM for the block cache of a container that asks for none.", unit="bytes")
    ReserveExtraRAM: int = key(550 * MIB, "RAM beside the container's own on each cloud VM.", unit="bytes")
    SupportedDockerImageFormats: list[str] = key(["v2"], "Image formats that requests may name.")
    RuntimeEngine: str = key("auto", "`native`, `docker`, or `auto`: native where this machine can, else docker.")
    DockerSocket: str = key("/var/run/docker.sock", "Socket of the Docker or podman service.", private=True)
    LogUpdatePeriod: float = key(1.0, "Longest time between output and its live view.", unit="seconds")
    LogUpdateSize: int = key(1 * MIB, "Output after which the live view is brought up to date at once.", unit="bytes")
    UsageInterval: float = key(10.0, "Time between two usage samples.", unit="seconds")
    StopGracePeriod: float = key(10.0, "Time between TERM and KILL when a container is stopped.", unit="seconds")
    RetryLimits: dict[str, int] = key(
        {},
        "Retries for each class of failure: user, oom, disk, image, node, preempted, timeout, infrastructure.",
    )
    GitRepositories: list[str] = key(
        [], "Addresses that git_tree mounts may name; one that ends in `/` or `:` allows all that begin with it."
    )
    GitTimeout: float = key(60.0, "Longest run of `git` for a git_tree mount.", private=True, unit="seconds")
    ResolveTimeout: float = key(
        5.0, "Time that a client waits while git_tree mounts are resolved; then it goes on without.", unit="seconds"
    )
    UnreachableTimeout: float = key(
        600.0, "Time a supervisor goes on trying to reach the API before it gives up.", unit="seconds"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The dispatcher of this machine."""

    VCPUs: int = key(0, "Virtual CPUs offered to containers; 0 asks the machine and its cgroup.", private=True)
    RAM: int = key(0, "RAM offered to containers; 0 asks the machine and its cgroup.", private=True, unit="bytes")
    PollInterval: float = key(10.0, "Time between two full looks at the queue.", private=True, unit="seconds")
    CacheSize: int = key(20 * GIB, "Disk for materialised inputs and images.", private=True, unit="bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgreSQL:
    """The database, where it is not the file in the data directory."""

    Connection: dict[str, str | int] = key(
        {}, "`host`, `port`, `dbname`, `user`, `password`, `sslmode`; empty is SQLite.", private=True
    )
    ConnectionPool: int = key(8, "Connections of one server process that read.", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Who sees whom."""

    ActivatedUsersAreVisibleToOthers: bool = key(True, "Users see the names of all others.")
    RoleGroupsVisibleToAll: bool = key(True, "Active users see all role groups.")
    AnonymousUserToken: str = key("", "Secret with which anybody reads what is shared with the anonymous group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be configured. `lading up` needs none of it."""

    ClusterID: str = key("", "Five lower-case letters or digits; made at first start.")
    SystemRootToken: str = key("", "Secret of the system user; made at first start.", private=True)
    ManagementToken: str = key("", "Secret for health and metrics; made at first start.", private=True)
    ExternalURL: str = key("", "Address that clients use; follows `--listen`.", private=True)
    StorageClasses: dict[str, dict[str, Any]] = key({"default": {"Default": True}}, "Storage classes by name.")
    API: API = field(default_factory=API, metadata={"doc": API.__doc__})
    AuditLogs: AuditLogs = field(default_factory=AuditLogs, metadata={"doc": AuditLogs.__doc__})
    Collections: Collections = field(default_factory=Collections, metadata={"doc": Collections.__doc__})
    Containers: Containers = field(default_factory=Containers, metadata={"doc": Containers.__doc__})
    Local: Local = field(default_factory=Local, metadata={"doc": Local.__doc__})
    Users: Users = field(default_factory=Users, metadata={"doc": Users.__doc__})
    PostgreSQL: PostgreSQL = field(default_factory=PostgreSQL, metadata={"doc": PostgreSQL.__doc__})


def parse_size(text: str | int) -> int:
    """Bytes meant by `text`: 1000, "64MiB", "2G". Raises Invalid."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"not a size: {text!r}; write a number of bytes, or for example 512MiB or 2GB")
    return int(float(match[1]) * _UNITS.get(match[2] or "", 1))


def parse_duration(text: str | float) -> float:
    """Seconds meant by `text`: 5, "10s", "336h", "1m30s". Raises Invalid."""
    if isinstance(text, int | float):
        return float(text)
    match = _TIME.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise Invalid(f"not a duration: {text!r}; write seconds, or for example 90s or 336h")
    hours, minutes, seconds, millis = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration in the YAML file `path` (none is all defaults), with `overrides` on top.

    Raises Invalid naming the key when a key is unknown or a value has the wrong type.
    """
    text = path.read_text() if path else ""
    try:
        raw = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise Invalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise Invalid(f"{path}: the configuration must be a mapping of keys")
    return _build(Config, _merge(raw, overrides or {}), "")


def export(config: Config) -> dict[str, Any]:
    """The part of the configuration that clients may see, as plain values (api-contract 4.16)."""
    return _export(config)


def _merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in top.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged


def _build(section: type[_Section], raw: Mapping[str, Any], prefix: str) -> _Section:
    declared = {one.name: one for one in dataclasses.fields(section)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in raw.items():
        where = f"{prefix}{name}"
        if name not in declared:
            raise Invalid(f"configuration: unknown key {where}; known here: {', '.join(sorted(declared))}")
        kind = _SECTIONS.get(name) if section is Config else None
        values[name] = _build_section(kind, value, where) if kind else _convert(declared[name], value, where)
    return section(**values)


def _build_section(kind: type[Any], value: object, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise Invalid(f"configuration: {where} must be a mapping of keys")
    return _build(kind, value, f"{where}.")


def _convert(declared: dataclasses.Field[Any], value: Any, where: str) -> Any:
    unit = declared.metadata.get("unit")
    try:
        if unit == "bytes":
            return parse_size(msgspec.convert(value, int | str))
        if unit == "seconds":
            return parse_duration(msgspec.convert(value, float | str))
        return msgspec.convert(value, _TYPES[str(declared.type)])
    except (Invalid, msgspec.ValidationError, TypeError) as error:
        raise Invalid(f"configuration: {where}: {error}") from error


def _export(section: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for one in dataclasses.fields(section):
        if one.metadata.get("private"):
            continue
        value = getattr(section, one.name)
        if dataclasses.is_dataclass(value):
            shown[one.name] = _export(value)
        elif one.metadata.get("unit") == "seconds":
            shown[one.name] = f"{value:.15g}s"
        else:
            shown[one.name] = value
    return shown


_SECTIONS: Mapping[str, type[Any]] = {
    "API": API,
    "AuditLogs": AuditLogs,
    "Collections": Collections,
    "Containers": Containers,
    "Local": Local,
    "Users": Users,
    "PostgreSQL": PostgreSQL,
}
_TYPES: Mapping[str, Any] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": float,
    "list[str]": list[str],
    "dict[str, str | int]": dict[str, str | int],
    "dict[str, int]": dict[str, int],
    "dict[str, dict[str, Any]]": dict[str, dict[str, Any]],
}
