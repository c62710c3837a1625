"""Reading one record, and pages of a hundred, as `arvados-cwl-runner`, keyset paging and the
workbench ask for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.api.http import drive, get
from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import PROJECTS, readable
from bench.api.templates import container_uuid, created_at, request_uuid
from bench.figures import Figure, calls

_REQUESTS: Final = "/arvados/v1/container_requests"
_CONTAINERS: Final = "/arvados/v1/containers"
_CONTENTS: Final = "/arvados/v1/groups/contents"
_PAGE: Final = {"limit": 100, "count": "none"}
_BRIEF: Final = [
    "uuid",
    "name",
    "state",
    "priority",
    "container_uuid",
    "output_uuid",
    "log_uuid",
    "created_at",
]
Page = Callable[[int], Mapping[str, object]]


async def single(place: Place, server: Server, *, count: int) -> list[Figure]:
    """One request, and one container, by uuid; by a user who may read it through a role and a
    project.
    """
    token, draw = place.site.token("alice"), random.Random(3)
    numbers = [
        one
        for one in (draw.randrange(place.count) for _ in range(2 * count))
        if readable(one % PROJECTS)
    ]
    figures = []
    for what, path, uuid in (
        ("request", _REQUESTS, request_uuid),
        ("container", _CONTAINERS, container_uuid),
    ):
        asked = [get(f"{path}/{uuid(place.site, one)}", token) for one in numbers[:count]]
        run = await drive(server, asked, connections=16)
        figures.append(calls(f"get a {what}", run, least=3000.0))
    return figures


async def pages(place: Place, server: Server, *, count: int) -> list[Figure]:
    """Pages of a hundred requests out of all, one at a time."""
    token, draw, figures = place.site.token("alice"), random.Random(4), []
    for what, page in _pages(place).items():
        asked = [
            get(_REQUESTS, token, **_PAGE, **page(draw.randrange(place.count)))
            for _ in range(count)
        ]
        run = await drive(server, asked, connections=1)
        figures.append(
            calls(f"page: {what}", run, p99_limit=10.0, note=_size(run.replies[0].json()))
        )
    return figures


async def others(place: Place, server: Server, *, count: int) -> list[Figure]:
    """What is dearer than a page, and what explains: no promise but that it is known."""
    token, draw, figures = place.site.token("alice"), random.Random(5), []
    first = [one for one in range(1, PROJECTS) if readable(one)]
    readables = [
        one
        for one in (draw.randrange(place.count) for _ in range(8 * count))
        if readable(one % PROJECTS)
    ]
    exact: dict[str, Any] = {"limit": 100, "count": "exact"}
    project = [
        get(_CONTENTS, token, uuid=place.site.project(draw.choice(first)), **_PAGE)
        for _ in range(count)
    ]
    asked = {
        "first page, count=exact": [get(_REQUESTS, token, **exact)] * 5,
        "count alone (limit=0)": [get(_REQUESTS, token, limit=0)] * 5,
        "first page of a project, count=exact": [
            get(_REQUESTS, token, **exact, filters=[["owner_uuid", "=", place.site.project(one)]])
            for one in draw.choices(first, k=10)
        ],
        "search by name in a project of a 200th": [
            get(
                _REQUESTS,
                token,
                **_PAGE,
                filters=[["owner_uuid", "=", place.site.project(one)], _NAMED],
            )
            for one in draw.choices(first, k=10)
        ],
        "search by name in all": [get(_REQUESTS, token, **_PAGE, filters=[_NAMED])] * 3,
        "groups/contents of a project": project,
        "groups/contents, requests of a project": [
            get(
                _CONTENTS,
                token,
                uuid=place.site.project(draw.choice(first)),
                **_PAGE,
                **_OF_REQUESTS,
            )
            for _ in range(count)
        ],
        "why": [
            get(f"{_REQUESTS}/{request_uuid(place.site, one)}/why", token)
            for one in readables[:count]
        ],
    }
    for what, requests in asked.items():
        figures.append(calls(what, await drive(server, requests, connections=1)))
    return figures


_NAMED: Final = ["name", "ilike", "%no such name%"]
_OF_REQUESTS: Final = {
    "filters": [["uuid", "is_a", "arvados#containerRequest"]],
    "order": ["created_at desc"],
}


def _pages(place: Place) -> dict[str, Page]:
    site, count = place.site, place.count

    def project(number: int) -> str:
        return site.project(
            next(one for one in range(number % PROJECTS, PROJECTS * 2) if readable(one)) % PROJECTS
        )

    return {
        "the first": lambda _: {},
        "the first, by created_at desc, brief": lambda _: {
            "order": ["created_at desc"], "select": _BRIEF,
        },
        "keyset, deep (created_at desc, uuid desc)": lambda number: {
            "order": ["created_at desc", "uuid desc"],
            "filters": [["created_at", "<=", created_at(number)]],
        },
        "keyset, deep (uuid asc)": lambda number: {
            "order": ["uuid asc"], "filters": [["uuid", ">", request_uuid(site, number)]],
        },
        "of a project, state Final, created_at desc": lambda number: {
            "order": ["created_at desc"],
            "filters": [["owner_uuid", "=", project(number)], ["state", "=", "Final"]],
        },
        "state Committed": lambda _: {
            "filters": [["state", "=", "Committed"]], "order": ["created_at desc"],
        },
        "uuid in 100": lambda number: {
            "filters": [
                [
                    "uuid", "in",
                    [request_uuid(site, (number + 7 * one) % count) for one in range(100)],
                ],
            ],
        },
        "container_uuid in 100, brief": lambda number: {
            "filters": [
                [
                    "container_uuid", "in",
                    [container_uuid(site, (number + 7 * one) % count) for one in range(100)],
                ],
            ],
            "select": _BRIEF,
        },
    }  # fmt: skip


def _size(page: Any) -> str:
    return f"{len(page['items'])} items"
