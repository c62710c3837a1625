"""Storage classes of collections: their names, and the classes that are confirmed.

A collection asks for classes (`storage_classes_desired`), which may be unknown to the site, as in
Arvados: a collection that was copied from another site keeps its wishes. The blocks are then stored
in the default classes, and an unknown class is never among `storage_classes_confirmed`: these are
the desired classes in which every block of the content was stored when the content was confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from lading.core.data.placement import UNCONFIRMED
from lading.core.errors import Invalid
from lading.core.records.schema import JSON, Record
from lading.core.values import printable

# The names are sent in a header of the block store, separated by commas.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MOST: Final = 64


def check_names(label: str, classes: Iterable[object]) -> None:
    """Check the names of storage classes in an attribute. Raises Invalid."""
    count = 0
    for name in classes:
        count += 1
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Invalid(
                f"{label}: {printable(str(name)[:80])!r} is no name of a storage class; use"
                " letters, digits, '.', '_' and '-'"
            )
    if count > _MOST:
        raise Invalid(f"{label}: more than {_MOST} storage classes")


def served(
    desired: Sequence[str], offered: Collection[str], default: Sequence[str]
) -> tuple[str, ...]:
    """The desired classes that some volume offers; the default classes where none is offered."""
    return tuple(name for name in desired if name in offered) or tuple(default)


def common(desired: Iterable[str], contents: Iterable[Collection[str]]) -> list[str]:
    """The desired classes that are confirmed for each of several contents."""
    confirmed = list(contents)
    return [name for name in dict.fromkeys(desired) if all(name in one for one in confirmed)]


def confirmation(classes: Sequence[str], now: str) -> Record:
    """The attributes of a collection whose content is confirmed in these classes."""
    return {
        "storage_classes_confirmed": list(classes) or UNCONFIRMED["storage_classes_confirmed"],
        "storage_classes_confirmed_at": now if classes else None,
    }


def with_warning(
    status: Mapping[str, JSON],
    classes: Sequence[str],
    *,
    known: Collection[str],
    default: Sequence[str],
) -> dict[str, JSON] | None:
    """The `runtime_status` of an ended container with a warning about output classes that the site
    does not have; None where all are known.
    """
    unknown = [name for name in dict.fromkeys(classes) if name not in known]
    if not unknown:
        return None
    named = ", ".join(unknown[:5])
    text = (
        f"not confirmed: this site has no storage class {named};"
        f" output and log are kept in {', '.join(served(classes, known, default)[:5])}"
    )
    changed = dict(status)
    for name in ("warning", "warningDetail"):
        earlier = str(changed.get(name) or "")
        if name == "warning":
            changed[name] = f"{earlier}; {text}" if earlier else text
        elif earlier:
            changed[name] = f"{earlier}\n{text}"
    return changed
