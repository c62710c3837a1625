"""The specifications of the Container Device Interface on this machine.

They are read only from files that belong to root or to this user and that nobody else may write:
they name files of the machine, which every container with a GPU then sees.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from lading.core.containers.cdi.devices import DIRECTORIES, CdiDevices, CdiFile, find_devices
from lading.core.containers.cdi.specification import MOST_BYTES, read_specification
from lading.core.errors import Invalid, LadingError

_MOST_FILES: Final = 256
_DEEPEST: Final = 32
_LONGEST: Final = 4096


def read_devices(root: Path) -> tuple[CdiDevices, tuple[str, ...]]:
    """The devices of the specifications of a machine, and a sentence for each file that is not
    read.
    """
    files: list[CdiFile] = []
    faults: list[str] = []
    for rank, directory in enumerate(DIRECTORIES):
        for path in _files(root / directory.lstrip("/")):
            try:
                document = read_document(path)
                files.append(
                    CdiFile(path=str(path), rank=rank, specification=read_specification(document))
                )
            except (LadingError, OSError) as error:
                reason = error.message if isinstance(error, LadingError) else error.strerror
                faults.append(f"{path}: is not read: {reason}")
    return find_devices(files), tuple(faults)


def read_document(path: Path) -> Any:
    """The JSON or YAML of a file that only root or this user can have written. Raises Invalid,
    OSError.
    """
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        is_own = status.st_uid in (0, os.geteuid())
        if not is_own or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Invalid("CDI: the file must belong to root, and nobody else may write it")
        content = file.read(MOST_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    if len(content) > MOST_BYTES:
        raise Invalid(f"CDI: the file has more than {MOST_BYTES} bytes")
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(content)
        _check_events(content)
        return yaml.load(content, Loader=yaml.CSafeLoader)
    except (msgspec.DecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise Invalid(f"CDI: {' '.join(str(error).split())[:200]}") from None
    # The loader of YAML raises these for tags and numbers that it cannot make a value of.
    except (ArithmeticError, LookupError, AttributeError, TypeError):
        raise Invalid("CDI: the file has a YAML tag or number that is no value") from None


def _open(path: str, flags: int) -> int:
    # A pipe must not stop the reader.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _check_events(content: bytes) -> None:
    """Refuse YAML that costs more than its size tells, before a value is made of it. Raises
    Invalid, YAMLError.
    """
    depth = 0
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        # An alias can stand for a value that is larger than the file.
        if isinstance(event, yaml.AliasEvent):
            raise Invalid("CDI: the file has YAML aliases, which are not read")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > _LONGEST:
            raise Invalid(f"CDI: a text has more than {_LONGEST} characters")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        # The time of the parser grows with the square of the depth.
        if depth > _DEEPEST:
            raise Invalid(f"CDI: more than {_DEEPEST} objects and lists in each other")


def _files(directory: Path) -> Iterable[Path]:
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in (".json", ".yaml"))
    except OSError:
        return []
    return paths[:_MOST_FILES]
