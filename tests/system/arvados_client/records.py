"""Checks of generic REST: pages, order, select, distinct, count, names, wrapped and bare bodies,
long queries.
"""

from __future__ import annotations

from tests.system.arvados_client.site import Site, equal

import arvados.util  # isort: skip


def check_current_user(site: Site) -> None:
    current = site.api.users().current().execute()
    assert current["is_admin"]
    equal(current["kind"], "arvados#user")
    equal(site.user.users().current().execute()["uuid"], site.user_uuid)


def check_config_and_vocabulary(site: Site) -> None:
    config = site.api.configs().get().execute()
    for section in (
        "Containers",
        "StorageClasses",
        "Collections",
        "Services",
        "API",
        "RemoteClusters",
        "Users",
    ):
        assert section in config, section
    assert isinstance(config["Containers"]["ReserveExtraRAM"], int)
    equal(arvados.util.get_config_once(site.api)["ClusterID"], config["ClusterID"])
    vocabulary = arvados.util.get_vocabulary_once(site.api)
    assert vocabulary["strict_tags"] is False
    assert "species" in vocabulary["tags"]


def check_create_bare_and_wrapped(site: Site) -> None:
    bare = site.api.collections().create(body={"name": site.name(), "manifest_text": ""}).execute()
    name = site.name()
    body = {"collection": {"name": name, "manifest_text": ""}}
    wrapped = site.api.collections().create(body=body, ensure_unique_name=True).execute()
    equal(wrapped["name"], name)
    equal(bare["kind"], "arvados#collection")
    equal(bare["portable_data_hash"], "d41d8cd98f00b204e9800998ecf8427e+0")


def check_update_and_delete(site: Site) -> None:
    made = site.collection(properties={"a": 1})
    changed = (
        site.api.collections().update(uuid=made["uuid"], body={"properties": {"b": [2]}}).execute()
    )
    equal(changed["properties"], {"b": [2]})
    assert changed["etag"] != made["etag"]
    assert changed["modified_at"] > made["modified_at"]
    site.api.collections().delete(uuid=made["uuid"]).execute()
    found = site.api.collections().list(filters=[["uuid", "=", made["uuid"]]]).execute()
    equal(found["items"], [])
    trashed = site.api.collections().get(uuid=made["uuid"], include_trash=True).execute()
    assert trashed["is_trashed"]


def check_send_back_what_was_read(site: Site) -> None:
    made = site.collection(name=site.name(), description="as it was")
    again = site.api.collections().update(uuid=made["uuid"], body={"collection": made}).execute()
    equal(again["description"], "as it was")


def check_names_are_unique(site: Site) -> None:
    name = site.name("twice")
    first = site.collection(name=name)
    second = site.made("collections", {"name": name, "manifest_text": ""}, ensure_unique_name=True)
    assert second["name"].startswith(f"{name} ("), second["name"]
    equal(second["name"], f"{name} ({second['uuid'][-15:]})")
    assert first["uuid"] != second["uuid"]


def check_list_envelope(site: Site) -> None:
    tag = site.name("envelope")
    for _ in range(3):
        site.made("links", {"link_class": "tag", "name": tag})
    page = site.api.links().list(filters=[["name", "=", tag]], limit=2, offset=1).execute()
    equal(
        (page["kind"], page["limit"], page["offset"], page["items_available"]),
        ("arvados#linkList", 2, 1, 3),
    )
    equal(len(page["items"]), 2)
    none = site.api.links().list(filters=[["name", "=", tag]], count="none").execute()
    assert "items_available" not in none
    only = site.api.links().list(filters=[["name", "=", tag]], limit=0).execute()
    equal((only["items"], only["items_available"], only["limit"]), ([], 3, 0))
    equal(site.api.links().list(limit=100_000).execute()["limit"], 1000)


def check_select_and_order(site: Site) -> None:
    tag = site.name("ordered")
    for name in ("b", "a", "c"):
        site.made("links", {"link_class": tag, "name": name})
    where = [["link_class", "=", tag]]
    page = site.api.links().list(filters=where, select=["name"], order=["name desc"]).execute()
    equal([one["name"] for one in page["items"]], ["c", "b", "a"])
    assert set(page["items"][0]) <= {"name", "kind", "etag", "writable_by"}, page["items"][0]
    text = site.api.links().list(filters=where, order="name asc,uuid desc").execute()
    equal([one["name"] for one in text["items"]], ["a", "b", "c"])
    newest = site.api.links().list(filters=where).execute()
    equal([one["name"] for one in newest["items"]], ["c", "a", "b"])
    one = (
        site.api.links()
        .create(body={"link_class": tag, "name": "d"}, select=["uuid", "name"])
        .execute()
    )
    assert set(one) <= {"uuid", "name", "kind", "etag"}, one
    gone = site.api.links().delete(uuid=one["uuid"]).execute()
    equal(gone["name"], "d")


def check_distinct(site: Site) -> None:
    tag = site.name("distinct")
    for name in ("x", "x", "y"):
        site.made("links", {"link_class": tag, "name": name})
    page = (
        site.api.links()
        .list(filters=[["link_class", "=", tag]], select=["name"], distinct=True)
        .execute()
    )
    equal(sorted(one["name"] for one in page["items"]), ["x", "y"])
    equal(page["items_available"], 2)


def check_keyset_paging(site: Site) -> None:
    tag = site.name("keyset")
    wanted = {
        site.made("links", {"link_class": tag, "name": str(n % 7)})["uuid"] for n in range(60)
    }
    for key in ("created_at", "modified_at", "name", "uuid"):
        for ascending in (True, False):
            found = _page_by_page(site, tag, key, ascending=ascending)
            equal((len(found), set(found)), (60, wanted), f"{key} {ascending}")


def _page_by_page(site: Site, tag: str, key: str, *, ascending: bool) -> list[str]:
    """Keyset paging with pages of four, which the client does not offer: it always asks for a
    thousand.
    """

    def four(**asked: object) -> object:
        return site.api.links().list(**{**asked, "limit": 4})

    where = [["link_class", "=", tag]]
    found = arvados.util.keyset_list_all(
        four, order_key=key, ascending=ascending, filters=where, select=["name"]
    )
    return [one["uuid"] for one in found]


def check_keyset_paging_of_many(site: Site) -> None:
    found = list(
        arvados.util.keyset_list_all(site.api.logs().list, filters=[["event_type", "=", "create"]])
    )
    assert len({one["uuid"] for one in found}) == len(found) > 60


def check_long_query_becomes_a_post(site: Site) -> None:
    made = site.collection()
    uuids = [f"{made['uuid'][:12]}{number:015d}" for number in range(1, 400)]
    filters = [["uuid", "in", [*uuids, made["uuid"]]]]
    equal(
        [one["uuid"] for one in site.api.collections().list(filters=filters).execute()["items"]],
        [made["uuid"]],
    )


def check_where(site: Site) -> None:
    made = site.collection(name=site.name("where"))
    found = site.api.collections().list(where={"uuid": made["uuid"]}).execute()["items"]
    equal([one["uuid"] for one in found], [made["uuid"]])
    several = site.api.collections().list(where={"uuid": [made["uuid"], "x"]}).execute()["items"]
    equal(len(several), 1)
    part = site.api.collections().list(where={"any": ["contains", made["name"]]}).execute()["items"]
    equal(len(part), 1)
    equal(site.api.collections().list(where={"uuid": None}).execute()["items"], [])


def check_trash_in_lists(site: Site) -> None:
    made = site.collection(is_trashed=True)
    where = [["uuid", "=", made["uuid"]]]
    equal(site.api.collections().list(filters=where).execute()["items_available"], 0)
    equal(
        site.api.collections().list(filters=where, include_trash=True).execute()["items_available"],
        1,
    )
    site.api.collections().untrash(uuid=made["uuid"]).execute()
    equal(site.api.collections().list(filters=where).execute()["items_available"], 1)


def check_include(site: Site) -> None:
    page = site.user.container_requests().list(include=["container_uuid"]).execute()
    equal(page["included"], [])
