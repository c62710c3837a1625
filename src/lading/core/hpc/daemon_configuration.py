"""Parameters of an HPC container: those of the code, and those of the daemon itself.

Both are an array of {key, value} or an object. Parameters of the code may have any name; the daemon
knows some and ignores others, which it lists in its response. A later value replaces an earlier one
of the same key and leaves the others unchanged. Source: docs/spec/hpc-daemon, section Parameters of
the daemon.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lading.core.errors import Invalid
from lading.core.hpc.addresses import SshdAddress, parse_address
from lading.core.hpc.daemon_states import ChildPolicy

CODE_PARAMETERS = "codeParameters"
DAEMON_PARAMETERS = "daemonParameters"
RESULTS = "/hpcaas/results"
SHARED = "/hpcaas/shared"
# Names of environment variables.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
# One line of authorized_keys without options (sshd(8)).
_PUBLIC_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+(?: [^\n\0]*)?\n?")
# Bounds the size of the generated files.
_MOST_RANKS = 100_000
# Bytes of one argument or variable with its name: the limit of Linux (MAX_ARG_STRLEN).
_MOST_VARIABLE = (1 << 17) - 1
# Bytes of all parameters as variables: half of the limit for arguments and environment.
_MOST_VARIABLES = 1 << 20
KILL_GRACE = 2
"""Seconds between TERM and KILL of the code where nobody sets others."""
MOST_KILL_GRACE = 3600
REQUIRED = ("worldRank", "worldSize", "sshAddresses", "sshPrivateKey", "sshPublicKey")
"""Keys that must be set before the code is started."""

# Keys that may change after the start of the code.
_ANY_TIME = frozenset({"resultsDirectory", "resultsUrl"})
# Names in earlier versions of the daemon and in its clients.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "WORLD_RANK": "worldRank",
        "world_rank": "worldRank",
        "WORLD_SIZE": "worldSize",
        "world_size": "worldSize",
        "containerAddresses": "sshAddresses",
        "clusterIPs": "sshAddresses",
        "SSH_PRIVATE_KEY": "sshPrivateKey",
        "SSH_PUBLIC_KEY": "sshPublicKey",
        "s3PresignedUrl": "resultsUrl",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSettings:
    """Settings of the daemon. `addresses` by rank, from 0 or from 1 as the caller chose."""

    world_rank: int | None = None
    world_size: int | None = None
    addresses: Mapping[int, SshdAddress] = field(default_factory=dict)
    private_key: str = field(default="", repr=False)
    public_key: str = ""
    results_directory: str = RESULTS
    results_url: str = field(default="", repr=False)
    code_name: str = ""
    code_arguments: tuple[str, ...] = ()
    child_policy: ChildPolicy = ChildPolicy.ANY
    slots: int = 1
    kill_grace: int = KILL_GRACE
    """Seconds between TERM and KILL of the code."""
    watched: tuple[str, ...] = ()
    """Directories on file systems whose failure is an FSError."""
    extra_ports: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """By name and rank: `IP:PORT`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The settings after a call, the canonical keys that it set, the unknown keys, and warnings."""

    settings: DaemonSettings
    accepted: tuple[str, ...]
    ignored: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def pairs(body: object, name: str) -> dict[str, Any]:
    """The keys and values below `name`, an array of {key, value} or an object; it may be missing.
    Raises Invalid.
    """
    if not isinstance(body, dict):
        raise Invalid(f"the body is not an object with {name}")
    content = body.get(name, [])
    if isinstance(content, dict):
        return dict(content)
    if not isinstance(content, list):
        raise Invalid(f"{name} is not an array of objects with key and value, or an object")
    values: dict[str, Any] = {}
    for item in content:
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("key"), str)
            or "value" not in item
        ):
            raise Invalid(
                f"{name} has an item that is not an object with a string as key, and a value"
            )
        values[item["key"]] = item["value"]
    return values


def daemon_parameters(body: object) -> dict[str, Any]:
    """The parameters of the daemon in a body; a body without `daemonParameters` has them at its
    top, as in `/v1/update`. Raises Invalid.
    """
    if isinstance(body, dict) and DAEMON_PARAMETERS not in body:
        return dict(body)
    return pairs(body, DAEMON_PARAMETERS)


def is_for_daemon(body: object) -> bool:
    """Whether a body at `/v1/code-configuration` is for the daemon: the path accepts both kinds.

    Raises Invalid for a body with parameters of both kinds.
    """
    if not isinstance(body, dict) or DAEMON_PARAMETERS not in body:
        return False
    if CODE_PARAMETERS in body:
        raise Invalid(
            f"{CODE_PARAMETERS} and {DAEMON_PARAMETERS} are in one body; send one after the other"
        )
    return True


def code_parameters(body: object) -> dict[str, Any]:
    """The parameters of the code in a body, with their types. Raises Invalid for a name or value
    that shells do not accept.
    """
    parameters = pairs(body, CODE_PARAMETERS)
    for name, value in parameters.items():
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"parameter {name[:60]!r} is no name: letters, digits and _, "
                "not beginning with a digit"
            )
        if any(char in parameter_text(value) for char in "\0\n\r"):
            raise Invalid(f"parameter {name} has a line break or NUL in its value")
    return parameters


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check that a program can be started with these parameters (execve(2)). Raises Invalid naming
    one that is too long.
    """
    total = 0
    for name, value in parameters.items():
        value_text = parameter_text(value)
        size = len(value_text.encode())
        most = _MOST_VARIABLE - len(variable_names(name)[-1]) - 1
        if size > most:
            raise Invalid(
                f"parameter {name} has {size} bytes in its value, but an environment variable "
                f"holds {most}; send it as a file, by multipart/form-data"
            )
        total += sum(len(variable) + 1 + size + 1 for variable in variable_names(name))
    if total > _MOST_VARIABLES:
        raise Invalid(
            f"the parameters have {total} bytes as environment variables, of two names each, "
            f"but {_MOST_VARIABLES} is the most; send large ones as files, by multipart/form-data"
        )


def variable_names(parameter: str) -> tuple[str, str]:
    """The names of the environment variables for a parameter of the code."""
    return parameter, f"PARAM_{parameter}"


def fits_a_variable(name: str, value: str) -> bool:
    """Whether Linux can start programs with this variable."""
    return len(name) + 1 + len(value.encode()) <= _MOST_VARIABLE


def missing(settings: DaemonSettings, keys: Collection[str]) -> tuple[str, ...]:
    """The missing keys without which the code is not started. `keys`: the keys that were set.

    A container that is alone in its cluster may have an empty list of addresses.
    """
    absent = [key for key in REQUIRED if key not in keys]
    if not settings.addresses and settings.world_size != 1 and "sshAddresses" not in absent:
        absent.append("sshAddresses")
    return tuple(absent)


def parameter_text(value: Any) -> str:
    """The value in an environment variable: texts unchanged, everything else as JSON."""
    if isinstance(value, str):
        # Lone surrogates cannot be encoded, neither here nor in a file.
        return value.encode("utf-8", "replace").decode()
    return json.dumps(value, separators=(",", ":"))


def file_name(name: str) -> str:
    """Check the name of an uploaded file and return it. Raises Invalid for a path, `.`, `..` or no
    name.
    """
    if (
        name in ("", ".", "..")
        or any(char in name for char in "/\\\0\n\r")
        or len(name.encode()) > 255
    ):
        raise Invalid(f"file name {name[:60]!r} is not a plain name")
    return name


def apply(
    settings: DaemonSettings,
    values: Mapping[str, Any],
    *,
    started: bool = False,
    allow_http: bool = False,
) -> Applied:
    """The settings with the values in `values`; nothing is changed when one of them is refused.

    `started`: the code is past Waiting, and only the destination of its results may be changed.
    `allow_http`: results may be sent without encryption. Raises Invalid.
    """
    accepted: list[str] = []
    ignored: list[str] = []
    changes: dict[str, Any] = {}
    for name, value in values.items():
        key = ALIASES.get(name, name)
        if key not in _READERS:
            ignored.append(name)
            continue
        if started and key not in _ANY_TIME:
            raise Invalid(f"{key} cannot be changed any more: the code has been started")
        attribute, read = _READERS[key]
        changes[attribute] = read(key, value)
        accepted.append(key)
    if changes.get("results_url", "").startswith("http:") and not allow_http:
        raise Invalid("resultsUrl is not an https: address; HPCAAS_ALLOW_HTTP=1 allows http:")
    after = dataclasses.replace(settings, **changes)
    return Applied(after, tuple(accepted), tuple(ignored), _check_rank(after))


def _check_rank(settings: DaemonSettings) -> tuple[str, ...]:
    rank, size = settings.world_rank, settings.world_size
    if rank is None or size is None:
        return ()
    first = min(settings.addresses, default=None)
    if rank > size or (rank == size and first == 0):
        raise Invalid(f"worldRank {rank} does not fit worldSize {size}")
    if rank == size and first is None:
        return (f"worldRank {rank} fits worldSize {size} only if ranks begin with 1",)
    return ()


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or "\0" in value or not _is_unicode(value):
        raise Invalid(f"{key} is not a text")
    return value


def _is_unicode(string: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in string)


def _count(key: str, value: Any, *, least: int) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_RANKS:
        raise Invalid(f"{key} is not a whole number from {least} to {_MOST_RANKS}")
    return value


def _rank(key: str, value: Any) -> int:
    return _count(key, value, least=0)


def _size(key: str, value: Any) -> int:
    return _count(key, value, least=1)


def _grace(key: str, value: Any) -> int:
    seconds = _count(key, value, least=0)
    if seconds > MOST_KILL_GRACE:
        raise Invalid(f"{key} is {seconds} seconds; {MOST_KILL_GRACE} is the most")
    return seconds


def _from_json(key: str, value: Any) -> Any:
    """Decode JSON in a text: fields of a form are texts."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError as error:
            raise Invalid(f"{key} is not JSON: {error}") from error
    return value


def _addresses(key: str, value: Any) -> Mapping[int, SshdAddress]:
    value = _from_json(key, value)
    if isinstance(value, list):
        value = {str(rank): address for rank, address in enumerate(value)}
    if not isinstance(value, dict):
        raise Invalid(f"{key} is not an object of addresses by rank, or a list of addresses")
    return {
        _rank(f"{key} rank", str(rank)): parse_address(_text(key, address))
        for rank, address in value.items()
    }


def _private_key(key: str, value: Any) -> str:
    text = _text(key, value)
    if not re.search("-----BEGIN [A-Z ]*PRIVATE KEY-----", text):
        raise Invalid(f"{key} is not a private key in PEM form")
    return text if text.endswith("\n") else text + "\n"


def _public_key(key: str, value: Any) -> str:
    text = _text(key, value)
    if not _PUBLIC_KEY.fullmatch(text):
        raise Invalid(f"{key} is not a line of authorized_keys")
    return text if text.endswith("\n") else text + "\n"


def _directory(key: str, value: Any) -> str:
    text = _text(key, value)
    if not text.startswith("/") or ".." in text.split("/") or "\n" in text:
        raise Invalid(f"{key} is not an absolute path without '..'")
    return text.rstrip("/") or "/"


def _url(key: str, value: Any) -> str:
    text = _text(key, value)
    # The address is a credential, so no part of it may appear in an error.
    if text and not re.fullmatch(r"https?://[!-~]+", text):
        raise Invalid(f"{key} is not an https: address")
    return text


def _code_name(key: str, value: Any) -> str:
    text = _text(key, value)
    return _directory(key, text) if "/" in text else file_name(text)


def _arguments(key: str, value: Any) -> tuple[str, ...]:
    value = _from_json(key, value)
    if not isinstance(value, list):
        raise Invalid(f"{key} is not a list of texts")
    texts = tuple(_text(key, item) for item in value)
    for argument in texts:
        if len(argument.encode()) > _MOST_VARIABLE:
            size = len(argument.encode())
            raise Invalid(f"{key} has an argument of {size} bytes; {_MOST_VARIABLE} is the most")
    return texts


def _policy(key: str, value: Any) -> ChildPolicy:
    text = _text(key, value)
    if text not in tuple(ChildPolicy):
        raise Invalid(f"{key} is not one of {', '.join(ChildPolicy)}")
    return ChildPolicy(text)


def _watched(key: str, value: Any) -> tuple[str, ...]:
    if value in (True, "true"):
        return (SHARED,)
    if value in (False, "false"):
        return ()
    return tuple(_directory(key, argument) for argument in _arguments(key, value))


def _extra_ports(key: str, value: Any) -> Mapping[str, Mapping[int, str]]:
    value = _from_json(key, value)
    if not isinstance(value, list):
        raise Invalid(f"{key} is not a list")
    ports_by_name: dict[str, Mapping[int, str]] = {}
    for item in value:
        if not isinstance(item, dict) or not _NAME.fullmatch(_text(key, item.get("Name"))):
            raise Invalid(f"{key} has an item without a Name of letters, digits and _")
        ports = _addresses(key, item.get("ExternalContainerPorts", {}))
        ports_by_name[item["Name"]] = {rank: str(address) for rank, address in ports.items()}
    return ports_by_name


_READERS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = MappingProxyType(
    {
        "worldRank": ("world_rank", _rank),
        "worldSize": ("world_size", _size),
        "sshAddresses": ("addresses", _addresses),
        "sshPrivateKey": ("private_key", _private_key),
        "sshPublicKey": ("public_key", _public_key),
        "resultsDirectory": ("results_directory", _directory),
        "resultsUrl": ("results_url", _url),
        "codeName": ("code_name", _code_name),
        "codeArguments": ("code_arguments", _arguments),
        "childFailurePolicy": ("child_policy", _policy),
        "slots": ("slots", _size),
        "killGrace": ("kill_grace", _grace),
        "sharedFileSystem": ("watched", _watched),
        "extraPorts": ("extra_ports", _extra_ports),
    }
)
KEYS = tuple(_READERS)
