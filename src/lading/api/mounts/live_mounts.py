"""Checks live mounts: `TES.FileRoots` lists the users who may mount a directory of the machine."""

from __future__ import annotations

from collections.abc import Iterable

from lading.config.site import Config
from lading.core.containers.mounting.mounts import LivePlace
from lading.core.errors import Forbidden, Invalid
from lading.core.records import access
from lading.core.records.access import Principal
from lading.core.records.record_types import USERS
from lading.core.tes.file_roots import find_live_root, find_root, make_roots
from lading.store import records
from lading.store.database import Transaction


async def check_live_places(
    tx: Transaction, config: Config, places: Iterable[LivePlace], acting: Principal
) -> None:
    """Raise Invalid for a live mount of a directory that this user may not use in this way."""
    user = await records.get(tx, USERS, acting.user_uuid) or {}
    names = [str(user[name]) for name in ("uuid", "username", "email") if user.get(name)]
    roots = make_roots(config.TES.FileRoots)
    for live_place in places:
        path = f"{live_place.root}/{live_place.path}".rstrip("/")
        root = find_live_root(roots, path)
        # A limited token must not get at files that its scopes say nothing of.
        if access.is_limited(acting) or root is None or root.prefix != live_place.root:
            raise Invalid(
                f"Mounts [{live_place.target}]: {path} is in no directory that this token may mount"
                " live; TES.FileRoots names these, and a token of limited scopes may mount none"
            )
        try:
            find_root(roots, path, names, writes=live_place.is_writable)
        except Forbidden as error:
            raise Invalid(f"Mounts [{live_place.target}]: {error.message}") from None
