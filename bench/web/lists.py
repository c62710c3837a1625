"""What the server needs for each list of the page."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from bench.api.places import Place
from bench.api.process import Server
from bench.api.sample import PROJECTS, readable
from bench.api.templates import created_at, request_uuid
from bench.figures import Figure, durations
from bench.web.visitor import visiting

LIMIT: Final = 100.0
"""Milliseconds of server time for the first paint of a list."""
_ROUNDS: Final = 15


def lists(place: Place) -> Mapping[str, str]:
    """Name and address of each list and of some pages."""
    middle = next(one for one in range(place.count // 2, place.count) if readable(one % PROJECTS))
    site = place.site
    after = quote(f"{created_at(middle)}~{request_uuid(site, middle)}")
    project = site.project(next(one for one in range(1, PROJECTS) if readable(one)))
    states = ("Running", "Waiting", "Failed", "Complete", "Cancelled", "Uncommitted")
    sample = f"sample-{place.count - 5:07d}"
    return {
        "Now": "/ui/",
        "Requests": "/ui/requests",
        **{f"Requests, {one}": f"/ui/requests?state={one}" for one in states},
        "Requests, mine": "/ui/requests?owner=me",
        "Requests, of a project": f"/ui/requests?owner={project}",
        "Requests, half a million down": f"/ui/requests?after={after}",
        "Requests, Failed, half a million down": f"/ui/requests?state=Failed&after={after}",
        "Requests, a common part of a name": "/ui/requests?q=align",
        "Requests, the name of one": f"/ui/requests?q={sample}",
        "Requests, no such name": "/ui/requests?q=no-such-name",
        "Home": "/ui/projects",
        "Project": f"/ui/projects/{project}",
        "Project, its collections": f"/ui/projects/{project}?kind=collections",
        "Shared with me": "/ui/projects/shared",
        "Trash": "/ui/trash",
        "Images": "/ui/images",
        "Search, the name of one": f"/ui/search?q={sample}",
        "Search, no such name": "/ui/search?q=no-such-name",
        "Request": f"/ui/requests/{request_uuid(site, middle)}",
        "Request, graph": f"/ui/requests/{request_uuid(site, middle)}/graph",
        "Request, timeline": f"/ui/requests/{request_uuid(site, middle)}/timeline",
    }


async def measure(place: Place, server: Server) -> list[Figure]:
    """Time of the server and bytes of each list, as a user with some of all rights sees it."""
    figures = []
    async with visiting(server, place.site.token("alice")) as visitor:
        for name, path in lists(place).items():
            answer, seconds = await visitor.get(path)
            if "location" in answer.headers:
                path = answer.headers["location"]
                answer, seconds = await visitor.get(path)
            # A slow one is measured less often.
            rounds = _ROUNDS if seconds < 1 else 3
            took = [(await visitor.get(path))[1] for _ in range(rounds)]
            packed, plain = len(answer.body), answer.body
            if answer.headers.get("content-encoding") == "gzip":
                plain = gzip.decompress(plain)
            sizes = f"{packed / 1000:.1f} kB of {len(plain) / 1000:.1f}"
            note = f"{sizes}, first {seconds * 1000:.0f} ms"
            figures.append(durations(f"server: {name}", took, p50_limit=LIMIT, note=note))
    return figures
