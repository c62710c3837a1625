"""What Workbench 2 of Arvados calls, as an unmodified one did in a browser (arvados/arvados, commit
913e3639, built with its own lock file): from its start through its pages of a project, a process,
all processes, the trash, favorites, groups, users, tokens and links.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from lading.testing.world import World, call_asgi, world

_ANY: Final = "%%"
_DATA: Final = ["arvados#group", "arvados#collection", "arvados#containerRequest",
                "arvados#workflow"]  # fmt: skip
_OPEN: Final = ("/arvados/v1/config", "/discovery/v1/apis/arvados/v1/rest",
                "/arvados/v1/vocabulary")  # fmt: skip
_TOP: Final = ["requesting_container_uuid", "=", None]
_REQUESTS: Final = ["uuid", "is_a", "arvados#containerRequest"]
_COUNTED: Final[dict[str, tuple[list[list[object]], int]]] = {
    "all": ([], 3),
    "Running": ([["container.state", "=", "Running"]], 0),
    # The exit code is a text in these filters.
    "Completed": ([["container.state", "=", "Complete"], ["container.exit_code", "=", "0"]], 1),
    "Failed": ([["container.state", "=", "Complete"], ["container.exit_code", "!=", "0"]], 1),
    "Cancelled": ([["container.state", "=", "Cancelled"]], 0),
    "Queued": ([["container.state", "in", ["Queued", "Locked"]], ["priority", "!=", "0"]], 1),
    "On hold": (
        [["state", "!=", "Final"], ["priority", "=", "0"],
         ["container.state", "in", ["Queued", "Locked"]]],
        0,
    ),
    "Draft": ([["state", "=", "Uncommitted"]], 0),
}  # fmt: skip
_NAMED: Final = [["collections.name", "ilike", _ANY], ["groups.name", "ilike", _ANY]]
_NO_LOGS: Final = ["collections.properties.type", "not in", ["log", "intermediate"]]
# Path, parameters, and how many it must find, the server's own records counted. ME, PROJECT,
# REQUEST and CONTAINER are uuids.
_LISTS: Final[list[tuple[str, Mapping[str, Any], int]]] = [
    ("groups/contents", {"filters": [_REQUESTS, ["container_requests.requesting_container_uuid",
                                                 "=", None]], "count": "none"}, 3),
    ("groups/contents", {"filters": [["uuid", "in", [""]], ["name", "ilike", _ANY],
                                     ["uuid", "is_a", _DATA]],
                         "include": ["owner_uuid", "container_uuid"]}, 0),
    ("groups/contents", {"filters": [_REQUESTS, ["uuid", "=", "REQUEST"]],
                         "include": ["container_uuid"]}, 1),
    ("groups/contents", {"filters": [_REQUESTS, ["requesting_container_uuid", "=", "CONTAINER"]],
                         "count": "none", "order": "created_at desc,created_at desc"}, 0),
    ("groups/contents", {"recursive": True, "include_trash": True, "count": "none",
                         "filters": [["uuid", "is_a", _DATA[:2]], *_NAMED,
                                     ["is_trashed", "=", True]],
                         "order": "collections.trash_at desc,groups.trash_at desc,"
                                  "container_requests.created_at desc"}, 1),
    ("groups/contents", {"exclude_home_project": True, "count": "none",
                         "filters": [["uuid", "is_a", _DATA], _NO_LOGS, *_NAMED,
                                     ["container_requests.requesting_container_uuid", "=", None],
                                     ["container_requests.name", "ilike", _ANY],
                                     ["uuid", "!=", "PROJECT"]],
                         "order": "collections.modified_at desc,"
                                  "container_requests.modified_at desc"}, 5),
    ("groups/ME/contents", {"include_trash": False, "count": "none",
                            "filters": [["uuid", "is_a", [*_DATA[:2], "arvados#workflow"]],
                                        _NO_LOGS, *_NAMED],
                            "order": "collections.modified_at desc,groups.modified_at desc,"
                                     "workflows.modified_at desc,created_at desc"}, 3),
    ("groups/ME/contents", {"include_trash": False, "count": "none",
                            "filters": [["uuid", "is_a", ["arvados#containerRequest"]],
                                        ["container_requests.requesting_container_uuid", "=", None],
                                        ["owner_uuid", "=", "ME"], ["name", "ilike", _ANY]],
                            "order": "container_requests.modified_at desc,created_at desc"}, 3),
    ("groups", {"filters": [["owner_uuid", "=", "ME"],
                            ["group_class", "in", ["project", "filter"]]],
                "order": "created_at desc"}, 1),
    ("groups", {"filters": [["group_class", "=", "role"], ["name", "ilike", _ANY]],
                "order": "name asc,created_at desc", "count": "none"}, 3),
    ("links", {"filters": [["link_class", "=", "star"], ["tail_uuid", "=", "ME"],
                           ["tail_kind", "=", "arvados#user"], ["head_uuid", "is_a", _DATA]],
               "count": "none"}, 1),
    ("links", {"filters": [["head_uuid", "in", ["PROJECT", ""]], ["owner_uuid", "=", "ME"],
                           ["link_class", "=", "star"]]}, 1),
    ("links", {"filters": [["tail_uuid", "=", "ME"], ["link_class", "=", "permission"],
                           ["head_kind", "=", "arvados#group"]]}, 1),
    ("containers", {"filters": [["uuid", "in", ["CONTAINER"]]]}, 1),
    ("users", {"filters": [["any", "ilike", _ANY]], "count": "none"}, 3),
    ("api_client_authorizations", {"count": "none"}, 6),
    ("virtual_machines", {}, 0),
]  # fmt: skip


@pytest.fixture
async def uuids(it: World) -> dict[str, str]:
    """A project with a star, trash, and three requests: complete, failed, waiting."""
    me = (await it.ok("GET", "users/current"))["uuid"]
    project = await it.ok("POST", "groups", {"group_class": "project", "name": "study"})
    star = {"link_class": "star", "name": "star", "tail_uuid": me, "head_uuid": project["uuid"],
            "owner_uuid": me}  # fmt: skip
    await it.ok("POST", "links", star)
    trashed = await it.ok("POST", "collections", {"name": "old"})
    await it.ok("POST", f"collections/{trashed['uuid']}/trash")
    done, failed, _ = [await it.submit(str(one), name=str(one)) for one in range(3)]
    await it.run(done["container_uuid"])
    await it.run(failed["container_uuid"], exit_code=1)
    return {"ME": me, "PROJECT": project["uuid"], "REQUEST": done["uuid"],
            "CONTAINER": done["container_uuid"]}  # fmt: skip


def _filled(value: Any, uuids: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(one, uuids) for one in value]
    return uuids.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize("path", _OPEN)
async def test_it_starts_without_a_login(it: World, path: str) -> None:
    answer = await call_asgi(it.app, "GET", path, headers={"origin": "http://workbench.example"})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_it_learns_who_logs_in(it: World) -> None:
    user = await it.ok("GET", "users/current")
    assert user["is_active"]
    token = await it.ok("GET", "api_client_authorizations/current")
    assert token["uuid"] in it.admin
    # It keeps its own settings in the record of the user, in the old form of a call.
    changed = await it.ok("PUT", f"users/{user['uuid']}", {"user": {"prefs": {"wb": {"a": 1}}}})
    assert changed["prefs"] == {"wb": {"a": 1}}
    assert (await it.ok("GET", "virtual_machines/get_all_logins"))["items"] == []


@pytest.mark.parametrize("number", range(len(_LISTS)))
async def test_its_lists(it: World, uuids: dict[str, str], number: int) -> None:
    path, given, count = _LISTS[number]
    params = {name: _filled(value, uuids) for name, value in given.items()}
    for name, value in uuids.items():
        path = path.replace(name, value)
    found = await it.ok("GET", path, params={"limit": 50, "offset": 0, **params})
    assert len(found["items"]) == count, [one["uuid"] for one in found["items"]]
    if "include" in given and count:
        assert found["included"][0]["uuid"] == uuids["CONTAINER"]


@pytest.mark.parametrize("name", _COUNTED)
async def test_its_counts_by_state(it: World, uuids: dict[str, str], name: str) -> None:
    filters, count = _COUNTED[name]
    asked = {"limit": 0, "filters": [*filters, _TOP]}
    assert (await it.ok("GET", "container_requests", params=asked))["items_available"] == count
    others = [_REQUESTS, _TOP, *filters, ["owner_uuid", "!=", uuids["ME"]]]
    shared = {"limit": 0, "exclude_home_project": True, "count": "exact", "filters": others}
    assert (await it.ok("GET", "groups/contents", params=shared))["items_available"] == 0


async def test_it_reads_logs_from_another_origin(it: World, uuids: dict[str, str]) -> None:
    path = f"/arvados/v1/container_requests/{uuids['REQUEST']}/log/{uuids['CONTAINER']}"
    asked = {
        "origin": "http://workbench.example",
        "access-control-request-method": "PROPFIND",
        "access-control-request-headers": "authorization,cache-control",
    }
    allowed = await call_asgi(it.app, "OPTIONS", path, headers=asked)
    headers = allowed.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "cache-control", "depth"} <= set(headers)
    assert "PROPFIND" in allowed.headers["access-control-allow-methods"]


async def test_it_is_in_the_configuration(tmp_path: Path) -> None:
    place = "https://workbench.example/"
    async with world(tmp_path, Services={"Workbench2": {"ExternalURL": place}}) as it:
        services = (await it.ok("GET", "config", token=""))["Services"]
        assert services["Workbench2"] == {"ExternalURL": place}
