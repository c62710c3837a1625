"""What others may see or do of the victim's things, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

CHANGE: Final = "change of "
"""Begins the labels of changes, before the name of the table."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """Calls of `callers` on routes that match `route` may show or change what matches `label`."""

    callers: Collection[str]
    route: str
    label: str
    reason: str

    def covers(self, caller: str, route: str, label: str) -> bool:
        """Whether it is about this."""
        return (
            caller in self.callers
            and re.fullmatch(self.route, route) is not None
            and re.fullmatch(self.label, label) is not None
        )


_USERS: Final = ("stranger", "container with API")
PERMITTED: Final = (
    Permitted(
        ("scoped",),
        r"GET /arvados/v1/api_client_authorizations/current",
        r"api_client_authorizations\.uuid",
        "the token of the caller itself",
    ),
    Permitted(
        _USERS,
        r"POST /arvados/v1/webhooks|GET /arvados/v1/(webhooks|logs)",
        r"change of (webhooks|logs|webhook_positions)|groups\.uuid",
        "a webhook of the caller may name any project, and gets events of readable records only",
    ),
    Permitted(
        _USERS,
        r"POST /ui/(access/\{uuid\}/address|tokens|device)"
        r"|GET /(ui/tokens|arvados/v1/api_client_authorizations)",
        r"change of (logs|api_client_authorizations)|collections\.uuid",
        "a token of the caller itself, whose scopes name what they like: it opens nothing",
    ),
    Permitted(
        _USERS,
        r"POST /ga4gh/wes/v1/runs",
        r"change of (logs|containers|container_requests|quota_charges|fair_\w+)",
        "a run of the caller, which names a content: it runs with the rights of the caller",
    ),
    Permitted(
        ("dispatcher",),
        r"(GET|PUT|PATCH|POST) /arvados/v1/containers(/\{uuid\})?(/\w+)?|events",
        r"containers\.\w+|(tasks|runs)\.\w+|portable_data_hash|api_client_authorizations\.uuid"
        r"|(container_requests|logs)\.uuid|uuid",
        "a dispatcher reads the containers that it may have to run",
    ),
    Permitted(
        ("dispatcher",),
        r"PUT /arvados/v1/containers/\{uuid\}|POST /arvados/v1/dispatch/statuses",
        r"change of .*",
        "a dispatcher takes what waits, writes what it has taken, and tells why the others wait;"
        " tests/api/resources/test_dispatcher_rights.py has what it may not",
    ),
)


def is_permitted(caller: str, route: str, label: str) -> bool:
    """Whether the table has an exception for this."""
    return any(one.covers(caller, route, label) for one in PERMITTED)
