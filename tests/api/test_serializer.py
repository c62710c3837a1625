"""Records as clients see them."""

from __future__ import annotations

import msgspec

from lading.api.serializer import etag, is_plain, needed, only, show, show_all, show_row, show_texts
from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import COLLECTIONS, LINKS, LOGS, USERS

COMMON = {"uuid": "zzzzz-o0j2j-000000000000000", "modified_at": "m"}


def test_hidden_fields_stay_hidden() -> None:
    shown = show(
        REQUESTS, {**REQUESTS.defaults, **COMMON, "secret_mounts": {"/s": {}}, "runtime_token": "t"}
    )
    assert "secret_mounts" not in shown
    assert "runtime_token" not in shown
    assert shown["kind"] == "arvados#containerRequest"


def test_derived_fields() -> None:
    link = {
        **LINKS.defaults,
        **COMMON,
        "head_uuid": "zzzzz-4zz18-000000000000000",
        "tail_uuid": None,
    }
    assert (show(LINKS, link)["head_kind"], show(LINKS, link)["tail_kind"]) == (
        "arvados#collection",
        None,
    )
    log = {**LOGS.defaults, **COMMON, "object_uuid": "zzzzz-dz642-000000000000000"}
    assert show(LOGS, log)["object_kind"] == "arvados#container"
    user = {**USERS.defaults, **COMMON, "first_name": "A", "last_name": "B"}
    assert show(USERS, user, ("full_name",))["full_name"] == "A B"
    assert show(USERS, {**user, "can_write": False}, ("can_write",))["can_write"] is False
    collection = {**COLLECTIONS.defaults, **COMMON, "manifest_text": "m"}
    assert show(COLLECTIONS, collection)["unsigned_manifest_text"] == "m"
    assert show(COLLECTIONS, collection)["name"] == ""


def test_selected_fields() -> None:
    assert show(LINKS, {**COMMON, "name": "n"}, ("name",)).keys() == {"name", "kind", "etag"}
    assert show_row(LINKS, {"name": "n"}, ("name",), distinct=True) == {"name": "n"}
    assert needed(LINKS, ("head_kind",)) == ("uuid", "modified_at", "head_uuid")


def test_etags_change_with_the_record() -> None:
    assert etag(COMMON) == etag(dict(COMMON)) != etag({**COMMON, "modified_at": "n"})


def test_what_was_selected_of_an_answer() -> None:
    shown = {"uuid": "u", "name": "n", "kind": "k", "etag": "e", "state": "s"}
    assert only(shown, ("name", "nothing")) == {"name": "n", "kind": "k", "etag": "e"}


def test_rows_and_texts_are_shown_alike() -> None:
    row = {"uuid": COMMON["uuid"], "modified_at": "m", "name": "n"}
    shown = show(REQUESTS, row, ("uuid", "name"))
    assert show_all(REQUESTS, [dict(row)], ("uuid", "name")) == [shown]
    texts = [('"uuid":"zzzzz-o0j2j-000000000000000","name":"n"', row["uuid"], "m")]
    assert msgspec.json.decode(msgspec.json.encode(show_texts(REQUESTS, texts))) == [shown]
    assert show_all(LINKS, [], ("uuid",)) == msgspec.json.decode(show_texts(LINKS, [])) == []
    assert is_plain(REQUESTS)
    assert not is_plain(LINKS)
