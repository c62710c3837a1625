"""Checks of the filter language: every operator, on every kind of attribute, as the client sends
them.
"""

from __future__ import annotations

from typing import Any

from tests.system.arvados_client.site import Record, Site, equal

ROWS: dict[str, Record] = {
    "Alpha": {
        "description": "first one",
        "properties": {
            "n": 1,
            "s": "red",
            "l": ["x", "y"],
            "o": {"k": 1},
            "http://a.example/k?v": "v",
            "b": True,
        },
        "replication_desired": 1,
    },
    "beta": {
        "description": None,
        "properties": {"n": 2, "s": "green", "l": ["y"]},
        "replication_desired": 2,
    },
    "gamma_3": {
        "description": "third",
        "properties": {"n": 10, "s": "Red", "z": None},
        "replication_desired": None,
    },
    "100%": {"description": "", "properties": {}, "replication_desired": 4},
}
EVERY = tuple(ROWS)
NOT_ALPHA = ("beta", "gamma_3", "100%")
CASES: tuple[tuple[list[Any], tuple[str, ...]], ...] = (
    (["name", "=", "Alpha"], ("Alpha",)),
    (["name", "!=", "Alpha"], NOT_ALPHA),
    (["name", "<>", "Alpha"], NOT_ALPHA),
    (["name", "<", "B"], ("Alpha", "100%")),
    (["name", ">=", "beta"], ("beta", "gamma_3")),
    (["name", "like", "%a"], ("Alpha", "beta")),
    (["name", "like", "gamma\\_%"], ("gamma_3",)),
    (["name", "ilike", "ALPHA"], ("Alpha",)),
    (["name", "in", ["Alpha", "beta", "nobody"]], ("Alpha", "beta")),
    (["name", "not in", ["Alpha", "beta"]], ("gamma_3", "100%")),
    (["name", "in", []], ()),
    (["name", "not in", []], EVERY),
    (["replication_desired", "=", None], ("gamma_3",)),
    (["replication_desired", "!=", None], ("Alpha", "beta", "100%")),
    (["replication_desired", "!=", 1], NOT_ALPHA),
    (["replication_desired", ">", 1], ("beta", "100%")),
    (["replication_desired", ">", "1"], ("beta", "100%")),
    (["replication_desired", "<=", 2], ("Alpha", "beta")),
    (["replication_desired", "in", [1, None]], ("Alpha", "gamma_3")),
    (["replication_desired", "not in", [1, None]], ("beta", "100%")),
    (["replication_desired", "not in", [1]], NOT_ALPHA),
    (["description", "=", None], ("beta",)),
    (["is_trashed", "=", False], EVERY),
    (["is_trashed", "=", "f"], EVERY),
    (["is_trashed", "=", True], ()),
    (["created_at", ">", "2020-01-01"], EVERY),
    (["created_at", ">", "2020-01-01T00:00:00+00:00Z"], EVERY),
    (["created_at", "<", "2020-01-01 00:00:00"], ()),
    (["trash_at", "=", None], EVERY),
    (["uuid", "is_a", "arvados#collection"], EVERY),
    (["uuid", "is_a", ["arvados#group", "arvados#user"]], ()),
    (["owner_uuid", "is_a", ["arvados#user"]], EVERY),
    (["owner_uuid", "is_a", "arvados#group"], ()),
    (["any", "ilike", "%THIRD%"], ("gamma_3",)),
    (["any", "=", "third"], ("gamma_3",)),
    (["any", "in", ["third", "beta"]], ("beta", "gamma_3")),
    ([["name", "description"], "=", "third"], ("gamma_3",)),
    (["properties", "exists", "s"], ("Alpha", "beta", "gamma_3")),
    (["properties", "contains", "l"], ("Alpha", "beta")),
    (["properties", "contains", ["l", "o"]], ("Alpha",)),
    (["properties", "=", "{}"], ("100%",)),
    (["properties", "!=", "{}"], ("Alpha", "beta", "gamma_3")),
    (["storage_classes_desired", "contains", "default"], EVERY),
    (["properties.s", "=", "red"], ("Alpha",)),
    (["properties.s", "!=", "red"], NOT_ALPHA),
    (["properties.n", "=", 2], ("beta",)),
    (["properties.n", ">", 1], ("beta", "gamma_3")),
    (["properties.n", "<=", 2], ("Alpha", "beta")),
    (["properties.b", "=", True], ("Alpha",)),
    (["properties.s", "like", "%re%"], ("Alpha", "beta")),
    (["properties.s", "ilike", "RED"], ("Alpha", "gamma_3")),
    (["properties.s", "in", ["red", "green"]], ("Alpha", "beta")),
    (["properties.s", "not in", ["red", "green"]], ("gamma_3", "100%")),
    (["properties.n", "in", [1, 10]], ("Alpha", "gamma_3")),
    (["properties.l", "exists", True], ("Alpha", "beta")),
    (["properties.l", "exists", False], ("gamma_3", "100%")),
    (["properties.l", "contains", "x"], ("Alpha",)),
    (["properties.s", "contains", "green"], ("beta",)),
    (["properties.z", "exists", True], ("gamma_3",)),
    (["properties.<http://a.example/k?v>", "=", "v"], ("Alpha",)),
    (["properties", "exists", "http://a.example/k?v"], ("Alpha",)),
    (["collections.name", "=", "beta"], ("beta",)),
)


def check_every_operator(site: Site) -> None:
    owner = _make(site)
    for filter, names in CASES:
        where = [["owner_uuid", "=", owner], filter]
        found = site.api.collections().list(filters=where, limit=50).execute()
        equal({one["name"] for one in found["items"]}, set(names), str(filter))
        equal(found["items_available"], len(names), f"count of {filter}")


def check_two_columns_compared(site: Site) -> None:
    made = site.collection()
    where: list[Any] = [["uuid", "=", made["uuid"]]]
    for text, there in (
        ("(created_at < modified_at)", 0),
        ("(created_at <= modified_at)", 1),
        ("(created_at = modified_at)", 1),
        ("(uuid != name)", 1),
    ):
        found = site.api.collections().list(filters=[*where, text]).execute()
        equal(found["items_available"], there, text)
    equal(
        site.api.collections()
        .list(filters=[*where, ["(uuid = name)", "=", True]])
        .execute()["items"],
        [],
    )


def check_attributes_of_the_container(site: Site) -> None:
    where = [["container.state", "in", ["Queued", "Complete"]], ["container.priority", ">=", "0"]]
    equal(site.user.container_requests().list(filters=where).execute()["items"], [])


def check_ids_of_logs_as_text(site: Site) -> None:
    newest = site.api.logs().list(order="id desc", limit=1).execute()["items"][0]
    made = site.collection()
    found = (
        site.api.logs()
        .list(filters=[["id", ">", str(newest["id"])]], order="id asc")
        .execute()["items"]
    )
    assert found[-1]["object_uuid"] == made["uuid"]


def _make(site: Site) -> str:
    owner = site.made("users", {"email": f"{site.name('f').replace(' ', '')}@example.org"})
    for name, attributes in ROWS.items():
        site.made(
            "collections",
            {"owner_uuid": owner["uuid"], "name": name, "manifest_text": "", **attributes},
        )
    return str(owner["uuid"])
