"""Tokens: the reader's own, made with scopes and an end and shown once; for admins those of
others, without their secrets.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from lading.client.api import Record
from lading.core.errors import Invalid, NotFound
from lading.core.ids import Infix, is_uuid
from lading.core.policy import token_scopes
from lading.core.quantities import format_time
from lading.web.keyset import key_of, page_after
from lading.web.visit import Visit

PLACE: Final = "/ui/tokens"
_KIND: Final = "api_client_authorizations"
_PAGE: Final = 50
_EVERYBODY: Final = "all"
_LONGEST_DAYS: Final = 3650
_FIELDS: Final = (
    "uuid", "owner_uuid", "scopes", "created_at", "expires_at", "last_used_at",
    "last_used_by_ip_address",
)  # fmt: skip
RIGHTS: Final = {
    "read": ("Read all that you can read", token_scopes.READ_ONLY),
    "upload": ("Store new collections, and read none", token_scopes.UPLOAD),
    "all": ("Do all that you may do", token_scopes.ALL),
    "some": ("Make these calls", ()),
}


async def show(visit: Visit) -> Response:
    """The tokens of the reader; `owner` is the uuid of another user, or `all`, for admins."""
    return await _page(visit)


async def create(visit: Visit) -> Response:
    """Make a token and show it: this page alone has its secret."""
    rights = visit.field("rights")
    if rights not in RIGHTS:
        raise Invalid(f"rights: choose one of {', '.join(RIGHTS)}")
    scopes = list(RIGHTS[rights][1]) or _read_scopes(visit.field("scopes"))
    ends = end_of(visit.field("days"), visit.services.clock())
    made = await visit.api.create(_KIND, {"scopes": scopes, "expires_at": ends})
    visit.tells_secret = True
    return await _page(visit, new_token=made, secret=f"v2/{made['uuid']}/{made['api_token']}")


async def revoke(visit: Visit) -> Response:
    """End a token at once."""
    uuid = visit.parts["uuid"]
    if not is_uuid(uuid, Infix.TOKEN):
        raise NotFound("There is no such token")
    await visit.api.delete(_KIND, uuid)
    owner = visit.field("owner")
    query = f"?owner={owner}" if owner == _EVERYBODY or is_uuid(owner, Infix.USER) else ""
    return visit.redirect(f"{PLACE}{query}")


def end_of(days: str, now: datetime) -> str | None:
    """The end of what is good for a number of days; None for "", which is without end. Raises
    Invalid.
    """
    if not days:
        return None
    if not days.isascii() or not days.isdigit() or not 0 < int(days) <= _LONGEST_DAYS:
        raise Invalid(f"days: must be a whole number from 1 to {_LONGEST_DAYS}, or nothing")
    return format_time(now + timedelta(days=int(days)))


def _read_scopes(field_text: str) -> list[str]:
    lines = [line.strip() for line in field_text.splitlines() if line.strip()]
    parsed = [(line, token_scopes.read_scope(line)) for line in lines]
    wrong = [line for line, scope in parsed if scope is None]
    if wrong or not parsed:
        raise Invalid(
            f"scopes: {wrong[0][:80] if wrong else 'there are none'}: write a method and a path in "
            "each line, for example GET /arvados/v1/collections/"
        )
    return [scope for _, scope in parsed if scope is not None]


async def _page(visit: Visit, *, new_token: Record | None = None, secret: str = "") -> Response:
    me = visit.session.user_uuid if visit.session else ""
    owner = visit.query("owner") or me
    if owner != _EVERYBODY and not is_uuid(owner, Infix.USER):
        raise NotFound("There is no such user")
    has_ended = bool(visit.query("ended"))
    tokens = await _find(visit, owner, has_ended=has_ended)
    rows = tokens[:_PAGE]
    owners = await _names(visit, rows) if owner != me else {}
    values: dict[str, Any] = {
        "rows": rows,
        "owner": owner,
        "mine": owner == me,
        "owners": owners,
        "now": format_time(visit.services.clock()),
        "own_token": visit.session.token_uuid if visit.session else "",
        "has_ended": has_ended,
        "older": _address(owner, has_ended=has_ended, after=key_of(rows[-1]))
        if len(tokens) > _PAGE
        else "",
        "other": _address(owner, has_ended=not has_ended),
        "rights": {name: description for name, (description, _) in RIGHTS.items()},
        "made": new_token,
        "secret": secret,
    }
    return visit.page("tokens.html", **values)


def _address(owner: str, *, has_ended: bool, after: str = "") -> str:
    parameters = {"owner": owner, "ended": "1" if has_ended else "", "after": after}
    return f"{PLACE}?{urlencode({name: value for name, value in parameters.items() if value})}"


async def _find(visit: Visit, owner: str, *, has_ended: bool) -> list[Record]:
    """Tokens, one more than a page shows. Without those that have ended: each container that ran
    leaves one.
    """
    whose = [] if owner == _EVERYBODY else [["owner_uuid", "=", owner]]
    now = format_time(visit.services.clock())
    kinds: list[list[Any]] = [[]]
    if not has_ended:
        # Filters know no "or".
        kinds = [[["expires_at", "=", None]], [["expires_at", ">", now]]]
    tokens: list[Record] = []
    for kind_filters in kinds:
        tokens += await page_after(
            visit.api,
            _KIND,
            filters=[*whose, *kind_filters],
            select=_FIELDS,
            after=visit.query("after"),
            most=_PAGE + 1,
        )
    tokens.sort(key=lambda token: (token["created_at"], token["uuid"]), reverse=True)
    return tokens[: _PAGE + 1]


async def _names(visit: Visit, rows: list[Record]) -> dict[str, str]:
    uuids = sorted({str(token["owner_uuid"]) for token in rows})
    if not uuids:
        return {}
    users = await visit.api.list(
        "users", filters=[["uuid", "in", uuids]], select=("uuid", "username"), limit=len(uuids)
    )
    return {user["uuid"]: user["username"] or user["uuid"] for user in users}
