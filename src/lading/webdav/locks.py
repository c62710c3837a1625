"""WebDAV locks: exclusive or shared, with a time limit, in the memory of this server.

Locks coordinate clients that use them. Data is safe without locks: other writers, through another
server or the API, change files atomically.

A lock on a directory covers everything below it, or with depth 0 its list of members. A writer must
send the token of each exclusive lock that covers its path, and of one of the shared locks of each
place (If header). An If header without a true list is
refused with 412.

Source: RFC 4918, 6 and 7.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from lading.core.errors import Conflict, LadingError, Malformed, Unavailable, from_status

# Locks at a time, so that they cannot fill the memory.
_MOST: Final = 10_000
# Seconds: the longest and the usual time of a lock.
_LONGEST: Final = 3600.0
# A client that names no time gets ten minutes.
_USUAL: Final = 600.0
# The time-out of RFC 4918, section 10.7; `Infinite` is treated as none.
_SECONDS: Final = re.compile(r"Second-([0-9]{1,10})", re.IGNORECASE)
# URI or token, "(", ")", entity tag, Not.
_PARTS: Final = re.compile(r'\s*(?:<([^<>]*)>|(\()|(\))|\[((?:W/)?"[^"]*")\]|(Not))', re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One lock: `token` is `urn:uuid:...`, `owner` is the XML of the client, `holder` identifies
    its token. Others may take a `shared` one of the same place, too.
    """

    token: str
    collection: str
    path: str
    deep: bool
    owner: str
    holder: str
    seconds: float
    until: float
    shared: bool = False


@dataclass(frozen=True, slots=True)
class LockCondition:
    """One term of an If header: a lock token or an entity tag that holds, or with `negated` does
    not.
    """

    token: str = ""
    tag: str = ""
    negated: bool = False


class Locks:
    """All locks, at most `most`; `clock` returns monotonic seconds, `new_token` makes a lock
    token.
    """

    def __init__(
        self, *, clock: Callable[[], float], new_token: Callable[[], str], most: int = _MOST
    ) -> None:
        self._clock, self._most = clock, most
        self._new_token = new_token
        self._locks: dict[str, Lock] = {}

    def take(
        self,
        collection: str,
        path: str,
        *,
        deep: bool,
        owner: str,
        holder: str,
        seconds: float,
        shared: bool = False,
    ) -> Lock:
        """Take a lock. Raises 423 for a conflicting lock, Unavailable when there are too many
        locks.
        """
        self._expire()
        for lock in (
            *self.covering(collection, path),
            *(self._below(collection, path) if deep else ()),
        ):
            # The first one is enough to refuse.
            if not (shared and lock.shared):
                raise _locked(lock)
        if len(self._locks) >= self._most:
            raise Unavailable(f"there are {self._most} locks; try again later")
        lock = Lock(
            token=self._new_token(),
            collection=collection,
            path=path,
            deep=deep,
            owner=owner,
            holder=holder,
            seconds=seconds,
            until=self._clock() + seconds,
            shared=shared,
        )
        self._locks[lock.token] = lock
        return lock

    def refresh(self, collection: str, path: str, *, tokens: set[str], seconds: float) -> Lock:
        """Extend the lock on a path whose token is in `tokens`. Raises 412 if there is none."""
        for lock in self.covering(collection, path):
            if lock.token in tokens:
                self._locks[lock.token] = replace(
                    lock, seconds=seconds, until=self._clock() + seconds
                )
                return self._locks[lock.token]
        raise from_status(412, f"/{path}: no such lock; it may have ended")

    def release(self, collection: str, path: str, token: str, *, holder: str) -> None:
        """Release a lock. Raises Conflict when no such lock covers the path, 403 for another
        holder's lock.
        """
        for lock in self.covering(collection, path):
            if lock.token == token:
                if lock.holder != holder:
                    raise from_status(403, f"/{path}: the lock is another user's")
                del self._locks[token]
                return
        raise Conflict(f"/{path}: no such lock; it may have ended")

    def forget(self, collection: str, path: str) -> None:
        """Remove the locks on a deleted path."""
        for lock in (*self._below(collection, path), *self._at(collection, path)):
            self._locks.pop(lock.token, None)

    def covering(self, collection: str, path: str) -> list[Lock]:
        """The locks that cover a path: its own, and deep ones above it."""
        self._expire()
        return [
            lock
            for lock in self._locks.values()
            if lock.collection == collection
            and (lock.path == path or (lock.deep and _inside(path, lock.path)))
        ]

    def check(
        self,
        collection: str,
        path: str,
        *,
        tokens: set[str],
        holder: str,
        below: bool = False,
        member: bool = False,
    ) -> None:
        """Check that a request with these tokens may write a path. Raises 423.

        `below`: the write includes everything below the path; `member`: it adds or removes the path
        in its directory.
        """
        covering = self.covering(collection, path)
        if below:
            covering += self._below(collection, path)
        if member and path:
            covering += self._at(collection, path.rpartition("/")[0])
        # The token alone is not enough: the lock must belong to the same holder.
        own = [lock for lock in covering if lock.token in tokens and lock.holder == holder]
        shared = {lock.path for lock in own if lock.shared}
        for lock in covering:
            if lock not in own and not (lock.shared and lock.path in shared):
                raise _locked(lock)

    def _at(self, collection: str, path: str) -> list[Lock]:
        self._expire()
        return [
            lock
            for lock in self._locks.values()
            if (lock.collection, lock.path) == (collection, path)
        ]

    def _below(self, collection: str, path: str) -> list[Lock]:
        return [
            lock
            for lock in self._locks.values()
            if lock.collection == collection and _inside(lock.path, path)
        ]

    # Ended locks are removed when locks are examined; there is no timer.
    def _expire(self) -> None:
        now = self._clock()
        for token in [lock.token for lock in self._locks.values() if lock.until <= now]:
            del self._locks[token]


def read_timeout(header: str) -> float:
    """Seconds requested by a Timeout header, at most an hour."""
    match = _SECONDS.search(header)
    # "Infinite" gets the longest time.
    return (
        min(float(match[1]), _LONGEST)
        if match
        else (_LONGEST if "infinite" in header.lower() else _USUAL)
    )


def read_conditions(header: str) -> list[tuple[str, list[LockCondition]]]:
    """The lists of an If header, each with its address, "" for the address of the request.

    Raises Malformed.
    """
    conditions: list[tuple[str, list[LockCondition]]] = []
    about, inside, negated, at = "", False, False, 0
    header = header.rstrip()
    while at < len(header):
        match = _PARTS.match(header, at)
        if match is None:
            raise Malformed('If: cannot be read; expected (<lock token> ["entity tag"]) ...')
        at = match.end()
        uri, opens, closes, tag, no = match.groups()
        if opens:
            # An address before a list applies to the lists after it.
            conditions.append((about, []))
        inside = bool(opens) or (inside and not closes)
        if inside and (uri is not None or tag):
            tag = (tag or "").removeprefix("W/").strip('"')
            conditions[-1][1].append(LockCondition(uri or "", tag, negated))
        elif uri is not None:
            about = uri
        negated = bool(no)
    return conditions


def tokens_of(header: str) -> set[str]:
    """The lock tokens in an If header. Raises Malformed."""
    return {
        term.token
        for _, terms in read_conditions(header)
        for term in terms
        if term.token and not term.negated
    }


# "" is the root, which contains everything.
def _inside(path: str, directory: str) -> bool:
    return path != directory and (not directory or path.startswith(f"{directory}/"))


def _locked(lock: Lock) -> LadingError:
    return from_status(
        423, f"/{lock.path}: is locked; wait until it is unlocked, at most {lock.seconds:.0f} s"
    )
