"""Each action of each record type has a handler and a path."""

from __future__ import annotations

from lading.api.routes import HANDLERS, Routes, actions
from lading.core.records.schema import Scope


def test_every_action_is_reached() -> None:
    routes = Routes()
    for kind, action in actions():
        member = "/u" if action.scope is Scope.MEMBER else ""
        path = f"/arvados/v1/{kind.plural}{member}{f'/{action.path}' if action.path else ''}"
        found = routes.find(action.method, path)
        assert found is not None
        assert found[0].handler is HANDLERS[f"{kind.plural}.{action.name}"]


def test_no_handler_is_left_over() -> None:
    assert set(HANDLERS) == {f"{kind.plural}.{action.name}" for kind, action in actions()}


def test_rest_of_a_path() -> None:
    found = Routes().find("HEAD", "/arvados/v1/container_requests/r/log/c/a/b.txt")
    assert found is not None
    assert found[1:] == ("r", "c/a/b.txt")
    assert Routes().find("PATCH", "/arvados/v1/links/l") is not None


def test_each_listed_route_is_found() -> None:
    routes = Routes()
    for method, path, route in routes.listed():
        found = routes.find(method, path.replace("{uuid}", "u").replace("{rest}", "a/b"))
        assert found is not None
        assert found[0] is route
