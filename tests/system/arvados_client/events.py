"""Checks of events: over the websocket and by polling, with filters, replay and unsubscribing."""

from __future__ import annotations

from tests.system.arvados_client.site import Heard, Record, Site, equal

import arvados.events  # isort: skip


def _is_about(made: Record, event_type: str) -> object:
    return lambda one: (
        one.get("object_uuid") == made["uuid"] and one.get("event_type") == event_type
    )


def check_subscribe(site: Site) -> None:
    heard = Heard()
    client = arvados.events.subscribe(
        site.api, [["event_type", "in", ["create", "update", "delete"]]], heard
    )
    try:
        assert isinstance(client, arvados.events.EventClient), type(client)
        heard.wait(lambda one: one.get("status") == 200)
        made = site.collection(name=site.name("heard"))
        event = heard.wait(_is_about(made, "create"))  # type: ignore[arg-type]
        for key in (
            "msgID",
            "id",
            "uuid",
            "object_owner_uuid",
            "object_kind",
            "event_at",
            "properties",
        ):
            assert key in event, key
        equal(event["object_kind"], "arvados#collection")
        equal(event["properties"]["new_attributes"]["name"], made["name"])
        site.api.collections().update(
            uuid=made["uuid"], body={"name": site.name("renamed")}
        ).execute()
        event = heard.wait(_is_about(made, "update"))  # type: ignore[arg-type]
        equal(event["properties"]["old_attributes"]["name"], made["name"])
        link = site.made("links", {"link_class": "tag", "name": "gone soon"})
        site.api.links().delete(uuid=link["uuid"]).execute()
        heard.wait(_is_about(link, "delete"))  # type: ignore[arg-type]
    finally:
        client.close()


def check_filters_of_events(site: Site) -> None:
    heard = Heard()
    client = arvados.events.subscribe(site.api, [["event_type", "in", ["delete"]]], heard)
    try:
        heard.wait(lambda one: one.get("status") == 200)
        link = site.made("links", {"link_class": "tag", "name": "unheard"})
        site.api.links().delete(uuid=link["uuid"]).execute()
        heard.wait(_is_about(link, "delete"))  # type: ignore[arg-type]
        equal([one["event_type"] for one in heard.events if "event_type" in one], ["delete"])
    finally:
        client.close()


def check_subscribe_and_unsubscribe(site: Site) -> None:
    heard = Heard()
    deletes, updates = [["event_type", "in", ["delete"]]], [["event_type", "in", ["update"]]]
    client = arvados.events.subscribe(site.api, deletes, heard)
    try:
        client.subscribe(updates)
        client.unsubscribe(deletes)
        heard.wait(lambda _: len([one for one in heard.events if one.get("status") == 200]) == 3)
        made = site.made("links", {"link_class": "tag", "name": "first"})
        site.made("links", {"link_class": "tag", "name": "other"})
        site.api.links().update(uuid=made["uuid"], body={"name": "second"}).execute()
        heard.wait(_is_about(made, "update"))  # type: ignore[arg-type]
        equal({one["event_type"] for one in heard.events if "event_type" in one}, {"update"})
    finally:
        client.close()


def check_replay(site: Site) -> None:
    last = site.api.logs().list(order="id desc", limit=1).execute()["items"][0]["id"]
    made = site.collection(name=site.name("missed"))
    heard = Heard()
    client = arvados.events.subscribe(site.api, [], heard, last_log_id=last)
    try:
        heard.wait(_is_about(made, "create"))  # type: ignore[arg-type]
        later = site.collection(name=site.name("not missed"))
        heard.wait(_is_about(later, "create"))  # type: ignore[arg-type]
        ids = [one["id"] for one in heard.events if "id" in one]
        equal(ids, sorted(set(ids)), "each once, in order")
        assert min(ids) > last
    finally:
        client.close()


def check_others_are_not_heard(site: Site) -> None:
    heard = Heard()
    client = arvados.events.subscribe(site.user, [], heard)
    try:
        heard.wait(lambda one: one.get("status") == 200)
        site.collection(name=site.name("secret"))
        body = {"link_class": "tag", "name": "mine", "owner_uuid": site.user_uuid}
        mine = site.user.links().create(body=body).execute()
        heard.wait(_is_about(mine, "create"))  # type: ignore[arg-type]
        equal([one["object_uuid"] for one in heard.events if "object_uuid" in one], [mine["uuid"]])
    finally:
        client.close()


def check_polling(site: Site) -> None:
    heard = Heard()
    client = arvados.events.PollClient(
        site.api, [["event_type", "=", "create"]], heard, poll_time=0.1
    )
    client.start()
    try:
        heard.wait(lambda one: one.get("status") == 200)
        made: list[Record] = []
        # The client remembers the newest row when it first asks; what was made before that is not
        # told.
        while not any("object_uuid" in one for one in heard.events) and len(made) < 100:
            made.append(site.collection())
            heard.changed.acquire()
            heard.changed.wait(0.2)
            heard.changed.release()
        heard.wait(_is_about(made[-1], "create"))  # type: ignore[arg-type]
    finally:
        client.close(timeout=10)
