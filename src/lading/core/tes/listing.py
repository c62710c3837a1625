"""Parameters of `GET tasks`, and the tokens of its pages.

A token has the creation time and uuid of the last task of a page, and a digest of the filters, all
signed: new tasks never shift later pages, and a token serves only the list that it came from.

Source: GA4GH Task Execution Service 1.1.0, ListTasks; docs/tes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest

from lading.core.errors import Malformed
from lading.core.tes.mapping import PROPERTY, TAG
from lading.core.tes.states import TaskState, conditions, parse_state
from lading.core.values import Json, canonical, printable

DEFAULT_PAGE, MAX_PAGE = 256, 2047
_NAMES = ("name_prefix", "state", "page_size", "page_token", "view")
# Bytes of the signature of a page token: 128 bits cannot be guessed.
_DIGEST = 16


class TaskView(StrEnum):
    """How much of a task is shown."""

    MINIMAL = "MINIMAL"
    BASIC = "BASIC"
    FULL = "FULL"


@dataclass(frozen=True, slots=True)
class TaskCursor:
    """The last task of a page: its creation time and its uuid."""

    created_at: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """A checked list. `tags`: names, each with the value that it must have, "" for any."""

    name_prefix: str = ""
    state: TaskState | None = None
    tags: tuple[tuple[str, str], ...] = ()
    size: int = DEFAULT_PAGE
    view: TaskView = TaskView.MINIMAL
    after: TaskCursor | None = None


def parse_view(text: str) -> TaskView:
    """The view that a parameter names, MINIMAL for none. Raises Malformed."""
    try:
        return TaskView(text or TaskView.MINIMAL)
    except ValueError:
        known = ", ".join(TaskView)
        raise Malformed(f"view: {printable(text)!r} is none of {known}") from None


def parse_query(pairs: Sequence[tuple[str, str]], *, secret: bytes) -> TaskQuery:
    """The list for the parameters of a request, in their order, blank values included. Raises
    Malformed.
    """
    given = {name: value for name, value in pairs if name in _NAMES}
    size = given.get("page_size", "") or str(DEFAULT_PAGE)
    if not size.isascii() or not size.isdigit() or len(size) > 4 or not 1 <= int(size) <= MAX_PAGE:
        raise Malformed(f"page_size: must be a whole number from 1 to {MAX_PAGE}")
    state = given.get("state", "")
    query = TaskQuery(
        name_prefix=given.get("name_prefix", ""),
        state=parse_state(state) if state else None,
        tags=_tags(pairs),
        size=int(size),
        view=parse_view(given.get("view", "")),
    )
    token = given.get("page_token", "")
    return replace(query, after=_read_token(token, query, secret)) if token else query


def _tags(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The n-th key belongs to the n-th value; missing and empty values match any."""
    keys = [value for name, value in pairs if name == "tag_key"]
    values = [value for name, value in pairs if name == "tag_value"]
    if len(values) > len(keys):
        raise Malformed("tag_value: there are more values than tag_key parameters")
    return tuple(zip_longest(keys, values, fillvalue=""))


def filters(query: TaskQuery, *, legacy: bool) -> list[Json]:
    """Filters of requests that hold for every task of the list."""
    found: list[Json] = [["properties", "exists", PROPERTY]]
    if query.name_prefix:
        plain = query.name_prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        found.append(["name", "like", f"{plain}%"])
    for name, value in query.tags:
        # In brackets, of which the API takes one pair away: the name may have any characters.
        column = f"properties.<{TAG}{name}>"
        found.append([column, "=", value] if value else [column, "exists", True])
    if query.state is not None:
        found += conditions(query.state, legacy=legacy)
    return found


def make_token(cursor: TaskCursor, query: TaskQuery, *, secret: bytes) -> str:
    """The token of the page after `cursor`."""
    text = f"{cursor.created_at} {cursor.uuid}".encode()
    return base64.urlsafe_b64encode(_sign(text, query, secret) + text).decode().rstrip("=")


def _read_token(token: str, query: TaskQuery, secret: bytes) -> TaskCursor:
    refused = Malformed("page_token: is not of this list; begin again without it")
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), b"-_", validate=True)
    except ValueError:
        raise refused from None
    signature, text = raw[:_DIGEST], raw[_DIGEST:]
    if not hmac.compare_digest(signature, _sign(text, query, secret)):
        raise refused
    created_at, _, uuid = text.decode().partition(" ")
    return TaskCursor(created_at, uuid)


def _sign(text: bytes, query: TaskQuery, secret: bytes) -> bytes:
    about = canonical([query.name_prefix, query.state, [list(one) for one in query.tags]])
    signed = b"tes page\0" + about.encode("utf-8", "surrogatepass") + b"\0" + text
    return hmac.digest(secret, signed, hashlib.sha256)[:_DIGEST]


def is_after(cursor: TaskCursor | None, row: Mapping[str, str]) -> bool:
    """Whether a request comes after `cursor`, newest first."""
    if cursor is None:
        return True
    return (row["created_at"], row["uuid"]) < (cursor.created_at, cursor.uuid)
