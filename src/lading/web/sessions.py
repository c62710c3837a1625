"""Sessions of browsers, one-time links and tickets, and the latest answers to forms, as files in a
directory of the server.

A secret that only the browser has names the session. A hash of the secret names the file. A key
from the secret seals the content, the API token among it. So a reader of the files can neither take
over a session nor use its token. Servers that share the directory share the sessions.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

IDLE: Final = 12 * 3600
"""Seconds after which an unused session ends."""
LONGEST: Final = 7 * 86400
"""Seconds after which any session ends."""
LINK_LIFE: Final = 60
"""Seconds for which a one-time link is good."""
FLOW_LIFE: Final = 600
"""Seconds for which a provider's answer is awaited: people type passwords there."""
FLOWS: Final = 10_000
"""Logins at a provider that go on at a time: anybody may begin one."""
TICKET_LIFE: Final = 30
"""Seconds for which a ticket is good."""
ANSWER_LIFE: Final = 3600
"""Seconds for which the answer to a form is shown again."""
ANSWERS: Final = 8
"""Answers to forms that are kept of one session."""
# 256 bits, the length of a key of AES-GCM here.
_SECRET_BYTES: Final = 32
# 96 bits: NIST SP 800-38D, section 5.2.1.1.
_NONCE_BYTES: Final = 12
# The name of a session's file: a SHA-256 of its secret.
_NAME: Final = re.compile(r"[0-9a-f]{64}")
# Seconds between two notes that a session was used, and between two removals of what has ended.
_NOTE_EVERY, _SWEEP_EVERY = 60.0, 600.0


class PageSession(msgspec.Struct, frozen=True, kw_only=True):
    """A login: the API token with which the page calls for its user."""

    token: str
    token_uuid: str
    """Uuid of the token if it was made for this session and ends with it, else ""."""
    user_uuid: str
    user_name: str
    is_admin: bool = False
    """Whether the user was an admin at the login: what is offered, not what is allowed."""
    begun: float
    """Seconds since 1970."""
    logout_url: str = ""
    """Address at which the provider ends the login there, "" if none does."""


class OneTimeLink(msgspec.Struct, frozen=True, kw_only=True):
    """Actions of a link: a login with a token, then an address of the page."""

    token: str
    target: str = msgspec.field(name="place")
    until: float
    """Seconds since 1970."""


class LoginFlow(msgspec.Struct, frozen=True, kw_only=True):
    """A login at a provider that has begun: what its answer is compared with, and the address of
    the page that it leads to.
    """

    state: str
    nonce: str
    code_verifier: str
    target: str = msgspec.field(name="place")
    until: float
    """Seconds since 1970."""


class ShellTicket(msgspec.Struct, frozen=True, kw_only=True):
    """Permission for one shell of one session in one container, as a user of the image."""

    holder: str
    """Hash of the secret of the session."""
    request: str
    container: str
    login: str
    until: float
    """Seconds since 1970."""


class FormAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page that answered a form of a session."""

    name: str
    page: str = msgspec.field(name="text")


_StoredRecord = TypeVar(
    "_StoredRecord", PageSession, OneTimeLink, LoginFlow, ShellTicket, FormAnswer
)
_Once = TypeVar("_Once", OneTimeLink, LoginFlow, ShellTicket)


class SessionStore:
    """Sessions, links and tickets below the directory `root`, which is made at need, for its owner
    only.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Callable[[], float],
        entropy: Callable[[int], bytes],
        most_flows: int = FLOWS,
    ) -> None:
        self._root = root
        self._most_flows = most_flows
        self._clock = clock
        self._entropy = entropy
        self._swept = 0.0

    async def begin(self, session: PageSession) -> str:
        """Keep a session; the secret that names it."""
        return await asyncio.to_thread(self._keep, "sessions", session)

    async def find(self, secret: str, *, is_use: bool = True) -> PageSession | None:
        """The session of a secret, unless it has ended; `is_use` prolongs it."""
        return await asyncio.to_thread(self._find, secret, is_use)

    async def end(self, secret: str) -> None:
        """Forget a session. Idempotent."""
        await asyncio.to_thread(self._path("sessions", secret).unlink, missing_ok=True)

    async def make_link(self, token: str, target: str) -> str:
        """Keep a one-time link; the secret that names it."""
        link = OneTimeLink(token=token, target=target, until=self._clock() + LINK_LIFE)
        return await asyncio.to_thread(self._keep, "links", link)

    async def take_link(self, secret: str) -> OneTimeLink | None:
        """The link of a secret, once; None if it is used or too old."""
        return await asyncio.to_thread(self._take, "links", secret, OneTimeLink)

    async def begin_flow(self, flow: LoginFlow) -> str:
        """Keep a login that has begun, in place of the oldest ones where there are too many; the
        secret that names it.
        """
        return await asyncio.to_thread(self._begin_flow, flow)

    async def take_flow(self, secret: str) -> LoginFlow | None:
        """The login of a secret, once; None if its answer was taken or is too late."""
        return await asyncio.to_thread(self._take, "flows", secret, LoginFlow)

    async def make_ticket(self, holder: str, *, request: str, container: str, login: str) -> str:
        """Keep a ticket for the session with the secret `holder`; the secret that names it."""
        ticket = ShellTicket(
            holder=_hash_of(holder),
            request=request,
            container=container,
            login=login,
            until=self._clock() + TICKET_LIFE,
        )
        return await asyncio.to_thread(self._keep, "tickets", ticket)

    async def take_ticket(self, secret: str, *, holder: str) -> ShellTicket | None:
        """The ticket of a secret, once; None if it is used, too old, or of another session."""
        found = await asyncio.to_thread(self._take, "tickets", secret, ShellTicket)
        return found if found is not None and found.holder == _hash_of(holder) else None

    async def keep_answer(self, holder: str, page: str) -> str | None:
        """Keep the page that answered a form of the session with the secret `holder`, in place of
        its oldest one. Returns its name, or None while another answer is being kept.
        """
        return await asyncio.to_thread(self._keep_answer, holder, page)

    async def find_answer(self, holder: str, name: str) -> str | None:
        """The page that was kept under a name; None if it was replaced, is too old, or belongs to
        another session.
        """
        return await asyncio.to_thread(self._find_answer, holder, name)

    def _begin_flow(self, flow: LoginFlow) -> str:
        secret = self._keep("flows", flow)
        paths = list((self._root / "flows").iterdir())
        if len(paths) > self._most_flows:
            # A tenth at a time: the ages of all are read once for many logins.
            surplus = len(paths) - self._most_flows + self._most_flows // 10
            now = self._clock()
            for path in sorted(paths, key=lambda path: _age(path, now), reverse=True)[:surplus]:
                path.unlink(missing_ok=True)
        return secret

    def _keep_answer(self, holder: str, page: str) -> str | None:
        now = self._clock()
        paths = [self._path("answers", _slot(holder, number)) for number in range(ANSWERS)]
        ages = [_age(path, now) if path.exists() else float("inf") for path in paths]
        number = ages.index(max(ages))
        paths[number].unlink(missing_ok=True)
        name = f"{number}{self._entropy(_NONCE_BYTES).hex()}"
        try:
            self._write("answers", _slot(holder, number), FormAnswer(name=name, page=page))
        except FileExistsError:
            return None
        return name

    def _find_answer(self, holder: str, name: str) -> str | None:
        secret = _slot(holder, int(name[0]) if name[:1].isdecimal() else 0)
        path = self._path("answers", secret)
        found = self._read(path, secret, FormAnswer)
        is_known = found is not None and found.name == name
        return (
            found.page if found and is_known and _age(path, self._clock()) <= ANSWER_LIFE else None
        )

    def _find(self, secret: str, is_use: bool) -> PageSession | None:
        path = self._path("sessions", secret)
        session = self._read(path, secret, PageSession)
        if session is None:
            return None
        now = self._clock()
        try:
            used = path.stat().st_mtime
            if now > used + IDLE or now > session.begun + LONGEST:
                path.unlink(missing_ok=True)
                return None
            if is_use and now > used + _NOTE_EVERY:
                os.utime(path, (now, now))
        except FileNotFoundError:
            # It was ended meanwhile.
            return None
        return session

    def _take(self, folder: str, secret: str, kind: type[_Once]) -> _Once | None:
        path = self._path(folder, secret)
        taken = self._read(path, secret, kind)
        try:
            # Only the request that removes the file gets its content: two requests cannot both use
            # it.
            path.unlink()
        except FileNotFoundError:
            return None
        return taken if taken is not None and self._clock() <= taken.until else None

    def _keep(self, kind: str, record: PageSession | OneTimeLink | LoginFlow | ShellTicket) -> str:
        secret = self._entropy(_SECRET_BYTES).hex()
        self._write(kind, secret, record)
        return secret

    def _write(self, kind: str, secret: str, record: msgspec.Struct) -> None:
        """Write a new file. Raises FileExistsError."""
        path, now = self._path(kind, secret), self._clock()
        # One by one: `parents=True` would make the outer one for everybody.
        for folder in (self._root, path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep(now)
        nonce = self._entropy(_NONCE_BYTES)
        sealed = _cipher(secret).encrypt(nonce, msgspec.json.encode(record), kind.encode())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(nonce + sealed)
        os.utime(path, (now, now))

    def _read(self, path: Path, secret: str, kind: type[_StoredRecord]) -> _StoredRecord | None:
        try:
            data = path.read_bytes()
            plain = _cipher(secret).decrypt(
                data[:_NONCE_BYTES], data[_NONCE_BYTES:], path.parent.name.encode()
            )
            return msgspec.json.decode(plain, type=kind)
        except (OSError, InvalidTag, ValueError):
            return None

    def _path(self, kind: str, secret: str) -> Path:
        return self._root / kind / _hash_of(secret)

    def _sweep(self, now: float) -> None:
        """Remove what has ended, now and then."""
        if now < self._swept + _SWEEP_EVERY:
            return
        self._swept = now
        lives = {
            "sessions": IDLE,
            "links": LINK_LIFE,
            "flows": FLOW_LIFE,
            "tickets": TICKET_LIFE,
            "answers": ANSWER_LIFE,
        }
        for kind, life in lives.items():
            for path in (self._root / kind).glob("*"):
                if _NAME.fullmatch(path.name) and _age(path, now) > life:
                    path.unlink(missing_ok=True)


def _hash_of(secret: str) -> str:
    return hashlib.sha256(f"name {secret}".encode()).hexdigest()


def _slot(holder: str, number: int) -> str:
    """The secret of one of the answers of a session."""
    return f"answer {number} of {holder}"


def _cipher(secret: str) -> AESGCM:
    return AESGCM(hashlib.sha256(f"seal {secret}".encode()).digest())


def _age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
