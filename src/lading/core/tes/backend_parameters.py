"""The backend parameters and tags of a task that have an effect.

Others are ignored, with a warning each; a task may ask that its backend parameters are refused.

Source: GA4GH Task Execution Service 1.1.0; docs/tes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from lading.core.containers.gpu_words import gpu_constraint, parse_kinds
from lading.core.errors import Invalid
from lading.core.values import Json, JsonObject, printable

GB: Final = 10**9
"""Bytes of a gigabyte: TES counts in powers of ten."""
_KNOWN_WITHOUT_EFFECT: Final = ("internal_path_prefix",)
"""Parameters that Cromwell sends with every task."""


def read_whole(value: str) -> int | None:
    """A whole number of at most nine digits, or None."""
    return int(value) if value.isascii() and value.isdigit() and 0 < len(value) < 10 else None


def read_flag(value: str) -> bool | None:
    """The flag that a word such as yes, no or 1 means; None for another word."""
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
        value.strip().lower()
    )


def read_seconds(value: str) -> int | None:
    """Whole seconds; 0 for a flag, None for anything else."""
    seconds = read_whole(value)
    return 0 if seconds is None and read_flag(value) is not None else seconds


def _size(value: str) -> int | None:
    try:
        gigabytes = float(value)
    except ValueError:
        return None
    return math.ceil(gigabytes * GB) if 0 <= gigabytes < 1 << 31 else None


def _gpu_kinds(value: str) -> Json:
    """Kinds of GPUs of one maker, or None."""
    try:
        kinds = parse_kinds(value)
        gpu_constraint(1, kinds=kinds)
    except Invalid:
        return None
    return [*kinds]


BACKEND: Final[Mapping[str, Callable[[str], Json]]] = MappingProxyType(
    {
        "gpu_count": read_whole,
        "gpu_ram_gb": _size,
        "gpu_type": _gpu_kinds,
        "keep_on_failure": read_seconds,
        "max_run_time": read_whole,
        "missing_outputs": lambda value: value if value in ("ignore", "fail") else None,
        "network": read_flag,
        "partition": lambda value: value or None,
        "reuse": read_flag,
    }
)
"""The backend parameters that have an effect, each with its reader; None is an unsupported
value.
"""
_TAGS: Final[Mapping[str, tuple[Callable[[str], Json], str]]] = MappingProxyType(
    {
        "lading.missing_outputs": (BACKEND["missing_outputs"], "ignore or fail"),
        "lading.project": (lambda value: value, "the uuid of a project"),
        "lading.retries": (read_whole, "a whole number"),
        "lading.reuse": (read_flag, "yes or no"),
        "lading.run": (lambda name: name, "the name of a run"),
    }
)
"""The tags that have an effect, each with its reader and its values."""


def tag_warnings(tags: JsonObject) -> Iterator[str]:
    """Warnings about tags of Lading that are not known or have no such value."""
    for name, value in tags.items():
        if not name.startswith("lading."):
            continue
        read, values = _TAGS.get(name, (None, ""))
        if read is None:
            known = ", ".join(_TAGS)
            yield f"warning: tag {printable(name)} is not known; these are: {known}"
        elif read(str(value)) is None:
            yield f"warning: tag {name} is {printable(str(value))!r}, not {values}; it is ignored"


def effective_parameters(parameters: JsonObject) -> tuple[JsonObject, list[str]]:
    """Backend parameters that have an effect, and warnings about the others."""
    effective: JsonObject = {}
    warnings: list[str] = []
    for name, value in parameters.items():
        fault = unsupported(name, str(value))
        if fault is not None:
            warnings.append(f"warning: backend parameter {printable(name)} {fault}; it is ignored")
        elif (plain := name.lower()) in BACKEND:
            effective[plain] = BACKEND[plain](str(value))
    return effective, warnings


def unsupported(name: str, value: str) -> str | None:
    """The reason why a backend parameter has no effect, or None."""
    plain = name.lower()
    if plain in _KNOWN_WITHOUT_EFFECT:
        return None
    if plain not in BACKEND:
        return f"is not supported; these are: {', '.join(BACKEND)}"
    return None if BACKEND[plain](value) is not None else f"has no value {printable(value)!r}"
