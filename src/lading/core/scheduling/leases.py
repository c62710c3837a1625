"""Leases of dispatchers' tokens: which process may work with a token (docs/spec/dispatch, section
Leases).

A process has a random id beside the name of its holder, HOST:DIRECTORY. Another process takes the
lease over once it has expired; at once if it has the same name, since a data directory is locked by
one process at a time. It takes it over once, at its start: two machines may have the same name, and
the process that was replaced must not take the lease back. Processes of earlier releases have no id
and renew less often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lading.core.errors import Invalid
from lading.core.quantities import later

TERM: Final = 30.0
"""Seconds after its last renewal at which a lease expires."""
# The same for processes without an id.
_LONG_TERM: Final = 180.0
# Characters of the name of a holder.
_LONGEST: Final = 4000
_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")


@dataclass(frozen=True, slots=True)
class Lease:
    """Holder of the lease of a token, and the time of its last renewal (API timestamp). `id` is
    that of the process; "": it has none.
    """

    holder: str
    renewed_at: str
    id: str = ""


def read(holder: object, id: object, *, now: str) -> Lease:
    """The lease that a report asks for at a time. Raises Invalid."""
    if not isinstance(holder, str) or not 0 < len(holder) <= _LONGEST or "\0" in holder:
        raise Invalid(f"holder: must be a text of at most {_LONGEST} characters")
    if id is None:
        return Lease(holder, now)
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise Invalid("lease: must be a text of 8 to 64 letters, digits, - and _")
    return Lease(holder, now, id)


def is_same(stored: Lease, asked: Lease) -> bool:
    """Whether two leases are of one process, as far as their ids tell."""
    return stored.id == asked.id and (bool(stored.id) or stored.holder == asked.holder)


def may_take(stored: Lease, asked: Lease, *, renews: bool = False) -> bool:
    """Whether the process of `asked` may take a lease that is `stored`; `renews`: it had the lease
    before, so that another one has replaced it unless the lease is its own.
    """
    if is_same(stored, asked):
        return True
    term = TERM if stored.id else _LONG_TERM
    has_expired = later(stored.renewed_at, term) < asked.renewed_at
    return not renews and (stored.holder == asked.holder or has_expired)


def refusal(stored: Lease) -> str:
    """The words for a process that does not have the lease."""
    return (
        f"another dispatcher works with this token: {stored.holder}, "
        f"heard of at {stored.renewed_at}. Stop that one, "
        "or make this one a token of its own with 'lading admin dispatcher-token'"
    )
