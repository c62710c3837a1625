"""`lading.web.routes`: what an address must be like to lead to its handler."""

from __future__ import annotations

import pytest
from starlette.responses import Response

from lading.web.routes import route
from lading.web.visit import Visit


async def _handler(visit: Visit) -> Response:
    return Response()


@pytest.mark.parametrize("path", ["/ui/things/a", "/ui/things/%2e%2e"])
def test_a_name_is_one_segment(path: str) -> None:
    match = route("GET", "/ui/things/{name}", _handler).pattern.fullmatch(path)
    assert match is not None
    assert match["name"] == path.rpartition("/")[2]


@pytest.mark.parametrize("path", ["/ui/things/", "/ui/things/a/b", "/ui/things/a/", "/ui/thing/a"])
def test_other_addresses_do_not_match(path: str) -> None:
    assert route("GET", "/ui/things/{name}", _handler).pattern.fullmatch(path) is None
