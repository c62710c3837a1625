"""The page on which a person allows a program to log in (`core.policy.device_logins`)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from lading.core.errors import Conflict, Invalid
from lading.core.policy.device_logins import LONGEST_NAME, PAGE, code_of, is_digest
from lading.core.values import printable
from lading.web.site.tokens import RIGHTS, end_of
from lading.web.visit import Visit

PLACE: Final = PAGE
_RIGHTS: Final = ("all", "read")
_DAYS: Final = "90"


async def show(visit: Visit) -> Response:
    """The question whether a program may log in."""
    return _page(visit, visit.query("digest"), visit.query("name"))


async def allow(visit: Visit) -> Response:
    """Store a token whose secret the program has."""
    digest, rights = visit.field("digest"), visit.field("rights")
    if not is_digest(digest):
        raise Invalid("digest: not that of a login; run 'lading login' again")
    if rights not in _RIGHTS:
        raise Invalid(f"rights: choose one of {', '.join(_RIGHTS)}")
    ends = end_of(visit.field("days"), visit.services.clock())
    attributes = {"scopes": list(RIGHTS[rights][1]), "expires_at": ends}
    try:
        await visit.api.create("api_client_authorizations", attributes, secret_digest=digest)
    except Conflict:
        return _page(visit, digest, visit.field("name"), fault="This login was allowed before.")
    return visit.page("device_login.html", is_allowed=True)


def _page(visit: Visit, digest: str, name: str, *, fault: str = "") -> Response:
    if not is_digest(digest):
        raise Invalid("This is no address of a login: run 'lading login', and open what it shows")
    return visit.page(
        "device_login.html",
        status=409 if fault else 200,
        is_allowed=False,
        fault=fault,
        digest=digest,
        code=code_of(digest),
        name=printable(name[:LONGEST_NAME]),
        rights={right: RIGHTS[right][0] for right in _RIGHTS},
        days=_DAYS,
    )
