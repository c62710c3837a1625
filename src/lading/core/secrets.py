"""Secrets of a container request: contents that its command gets and that no record shows.

They are `secret_mounts`: files in the container. A text among them may name an environment variable
of the command (VARIABLE), which then has the content, too. A secret is named by its variable, or by
the path of its file if it has none; the file of a variable is in DIRECTORY.

`secrets_needed` of a request describes its secrets without the contents, so that who runs it again
knows which ones to give. Source: docs/spec/containers, section Secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject, printable

VARIABLE: Final = "environment_variable"
"""Key of a secret mount: the variable that has its content, too."""
DIRECTORY: Final = "/run/secrets"
"""Where the files of variables are, if a request says nothing else."""
LARGEST: Final = 1 << 20
"""Bytes of a secret that clients send; it is a part of the request."""
LARGEST_VARIABLE: Final = 1 << 17
"""Bytes of `NAME=VALUE` and its NUL that Linux passes to a program (MAX_ARG_STRLEN)."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# NAME, NAME=VALUE, NAME=@FILE or NAME@FILE.
_OPTION: Final = re.compile(r"([^=@]*)(?:=(@?)|(@))?(.*)", re.DOTALL)
_TELLING: Final = re.compile(r"PASSWORD|TOKEN|SECRET|_KEY$", re.IGNORECASE)
_SHOWN: Final = 60


def is_telling(name: str) -> bool:
    """Whether the name of a variable looks like that of a secret."""
    return _TELLING.search(name) is not None


def parse_option(option: str) -> tuple[str, str | None, str | None]:
    """Name, value and file of an option `NAME[=VALUE|@FILE]`; value and file may be None. Raises
    Invalid.
    """
    match = _OPTION.fullmatch(option)
    name = match[1] if match is not None else ""
    check_name(name)
    if match is None or (match[2] is None and match[3] is None):
        return name, None, None
    if not (match[2] or match[3]):
        return name, match[4], None
    if not match[4]:
        raise Invalid(
            f"{name}: names no file after the @; write {name}=@FILE, or {name}=@- for a pipe"
        )
    return name, None, match[4]


def check_name(name: str) -> None:
    """Check that a secret can have this name. Raises Invalid."""
    if name.startswith("/"):
        if "\0" in name or {"", ".", ".."} & set(name[1:].split("/")):
            raise Invalid(f"secret {printable(name)[:_SHOWN]!r}: is no path such as /etc/key")
    elif not _NAME.fullmatch(name):
        raise Invalid(
            f"secret {printable(name)[:_SHOWN]!r}: is neither a variable, such as API_KEY, "
            "nor the path of a file, such as /etc/key"
        )


def read_content(name: str, data: bytes) -> str:
    """The content of a secret from the bytes of a file. Of a variable the line break at the end is
    left out, which editors add and no password has. Raises Invalid.
    """
    if len(data) > LARGEST:
        raise Invalid(f"secret {name[:_SHOWN]}: has more than {LARGEST} bytes; use a collection")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Invalid(
            f"secret {name[:_SHOWN]}: is no text in UTF-8; encode it, for example by base64"
        ) from None
    return text if name.startswith("/") else text.removesuffix("\n").removesuffix("\r")


def mounts_of(contents: Mapping[str, str]) -> JsonObject:
    """The secret mounts of contents by the names of the secrets. Raises Invalid."""
    mounts: JsonObject = {}
    for name, content in contents.items():
        check_name(name)
        is_file = name.startswith("/")
        target = name if is_file else f"{DIRECTORY}/{name}"
        if target in mounts:
            raise Invalid(f"secret {name[:_SHOWN]}: the file {target} is another secret's, too")
        variable: JsonObject = {} if is_file else {VARIABLE: name}
        mounts[target] = {"kind": "text", "content": content, **variable}
    return mounts


def described(secret_mounts: Mapping[str, Json]) -> list[Json]:
    """The secret mounts without their contents: `target`, `kind`, and VARIABLE where there is
    one.
    """
    found: list[Json] = []
    for target, spec in sorted(secret_mounts.items()):
        if isinstance(spec, dict):
            variable = {VARIABLE: str(spec[VARIABLE])} if spec.get(VARIABLE) else {}
            found.append({"target": target, "kind": str(spec.get("kind")), **variable})
    return found


def needed_names(needed: Iterable[object]) -> list[str]:
    """The names of described secrets."""
    return [
        str(secret.get(VARIABLE) or secret.get("target"))
        for secret in needed
        if isinstance(secret, Mapping)
    ]


def restored(needed: Iterable[object], contents: Mapping[str, str]) -> JsonObject:
    """The secret mounts of a request that needs these secrets, with contents by their names.
    Raises Invalid naming those that are missing.
    """
    mounts: JsonObject = {}
    missing = []
    for secret in needed:
        if not isinstance(secret, Mapping):
            continue
        (name,) = needed_names([secret])
        if name not in contents:
            missing.append(name)
            continue
        variable: JsonObject = {VARIABLE: str(secret[VARIABLE])} if secret.get(VARIABLE) else {}
        kind = str(secret.get("kind"))
        content = _json(name, contents[name]) if kind == "json" else contents[name]
        mounts[str(secret["target"])] = {"kind": kind, "content": content, **variable}
    if missing:
        raise Invalid(
            f"needs the secret {', '.join(absent[:_SHOWN] for absent in missing[:3])}"
            f"{', ...' if missing[3:] else ''}, which no record has; "
            "give it again, as --secret NAME=@FILE"
        )
    return mounts


def _json(name: str, content: str) -> Json:
    try:
        found: Json = msgspec.json.decode(content)
    # Without its words, which may show a part of the secret.
    except (msgspec.DecodeError, UnicodeError):
        raise Invalid(f"secret {name[:_SHOWN]}: must be JSON, as it was") from None
    return found


def check_variables(environment: Mapping[str, Json], secret_mounts: Mapping[str, Json]) -> None:
    """Check the variables of secret mounts whose kinds were checked. Raises Invalid, without any
    content.
    """
    taken = set(environment)
    for target, spec in secret_mounts.items():
        variable = spec.get(VARIABLE) if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(variable, str) or not variable:
            continue
        where = f"Secret mounts [{printable(target)}][{VARIABLE}]"
        if not target.startswith("/"):
            raise Invalid(f"{where}: a secret that is standard input has no variable")
        _check_variable(where, variable, str(spec.get("content")))
        if variable in taken:
            raise Invalid(f"{where}: {variable[:_SHOWN]} is set twice; one of them would be lost")
        taken.add(variable)


def _check_variable(where: str, variable: str, content: str) -> None:
    if not _NAME.fullmatch(variable):
        raise Invalid(
            f"{where}: {printable(variable)[:_SHOWN]!r} is no name of a variable, such as API_KEY"
        )
    if "\0" in content:
        raise Invalid(f"{where}: the content has a NUL, which no variable can hold")
    size = len(variable) + 2 + len(content.encode("utf-8", "surrogatepass"))
    if size > LARGEST_VARIABLE:
        raise Invalid(
            f"{where}: is too large for a variable ({LARGEST_VARIABLE} bytes with its name); "
            "give it as a file"
        )
