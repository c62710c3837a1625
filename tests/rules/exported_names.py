"""`python -m tests.rules.exported_names`: store the names that users write: those of the Python API
with their arguments, and the keys of the configuration.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_type_hints

import lading
from lading.config.site import Config
from tests.rules.sources import text

STORED: Final = Path(__file__).with_suffix(".txt")
_OPTIONAL: Final = frozenset({"DaskScheduler", "JoblibBackend", "ParslContainers"})
"""Names whose modules need packages that not every checkout has: only the name counts."""


def stored() -> list[str]:
    """The stored names."""
    return text(STORED).splitlines()


def present() -> list[str]:
    """The names of the Python API and of the configuration, sorted."""
    return sorted({*_api(), *_keys(Config, "configuration: ")})


def _api() -> Iterator[str]:
    for name in lading.__all__:
        yield name
        if name in _OPTIONAL:
            continue
        exported = getattr(lading, name)
        if callable(exported):
            yield f"{name}{_arguments(exported)}"
        if inspect.isclass(exported):
            # Members of other packages' classes, such as pathlib's, differ between versions.
            for base in exported.__mro__:
                if base.__module__.startswith("lading."):
                    for member, value in vars(base).items():
                        if not member.startswith("_"):
                            yield f"{name}.{member}{_arguments(value)}"


def _arguments(value: object) -> str:
    if not callable(value):
        return ""
    try:
        names = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return "()"
    return f"({', '.join(name for name in names if not name.startswith('_'))})"


def _keys(section: type, prefix: str) -> Iterator[str]:
    for name, kind in get_type_hints(section).items():
        if name.startswith("_"):
            continue
        yield f"{prefix}{name}"
        if inspect.isclass(kind) and kind.__module__.startswith("lading.config"):
            yield from _keys(kind, f"{prefix}{name}.")


def main() -> None:
    """Store the present names."""
    STORED.write_text("\n".join(present()) + "\n")


if __name__ == "__main__":
    main()
