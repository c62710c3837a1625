"""What a client may write: names and types."""

from __future__ import annotations

import pytest

from lading.core.errors import Forbidden, Invalid
from lading.core.records import attributes
from lading.core.records.container_types import CONTAINERS
from lading.core.records.record_types import COLLECTIONS, LINKS, TOKENS
from lading.core.records.schema import JSON, Record, RecordType

UUID = "zzzzz-4zz18-000000000000000"


def check(
    given: Record,
    kind: RecordType = COLLECTIONS,
    *,
    stored: Record | None = None,
    admin: bool = True,
) -> Record:
    return attributes.check(given, kind, stored=stored, admin=admin, cluster="zzzzz")


def test_what_is_dropped() -> None:
    given = {
        "created_at": "x",
        "etag": 1,
        "kind": 1,
        "href": 1,
        "modified_by_client_uuid": 1,
        "name": "n",
    }
    assert check(given) == {"name": "n"}


@pytest.mark.parametrize(
    ("name", "sent", "kept"),
    [
        ("name", None, None),
        ("properties", None, {}),
        ("properties", {"a": 1}, {"a": 1}),
        ("storage_classes_desired", ["a"], ["a"]),
        ("is_trashed", "true", True),
        ("is_trashed", "0", False),
        ("is_trashed", None, False),
        ("replication_desired", "2", 2),
        ("replication_desired", -1, -1),
        ("replication_desired", None, None),
        ("trash_at", "2026-01-02", "2026-01-02T00:00:00.000000000Z"),
    ],
)
def test_types(name: str, sent: JSON, kept: JSON) -> None:
    assert check({name: sent}) == {name: kept}


@pytest.mark.parametrize(
    ("name", "sent", "fault"),
    [
        ("nope", 1, "unknown attribute 'nope' for Collection."),
        ("name", 5, "name: must be a string, not a number"),
        ("name", "a\0b", "NUL"),
        ("properties", {"k": "a\0b"}, "properties: must not contain a NUL character"),
        ("properties", {"a\0b": 1}, "properties: must not contain a NUL character"),
        ("properties", {"k": [{"x": ["\0"]}]}, "properties: must not contain a NUL character"),
        ("properties", [], "properties: must be an object, not an array"),
        ("storage_classes_desired", {}, "must be an array, not an object"),
        ("is_trashed", "perhaps", "must be true or false, not a string"),
        ("replication_desired", True, "must be a whole number, not a boolean"),
        ("replication_desired", "1.5", "must be a whole number, not a string"),
        ("replication_desired", "9" * 30, "64 bits"),
        ("replication_desired", 1 << 63, "64 bits"),
        ("trash_at", "noon", "trash_at: 'noon' is not a timestamp"),
        ("version", 7, "version: only the server sets it"),
    ],
)
def test_faults(name: str, sent: JSON, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        check({name: sent})
    assert fault in caught.value.message


def test_readonly_fields_may_be_sent_back() -> None:
    assert check({"version": 1, "unsigned_manifest_text": "x", "current_version_uuid": None}) == {}
    assert check({"version": 3}, stored={"uuid": UUID, "version": 3}) == {}
    with pytest.raises(Invalid, match="version"):
        check({"version": 4}, stored={"uuid": UUID, "version": 3})


def test_costs_are_numbers() -> None:
    assert check({"cost": 1}, CONTAINERS) == {"cost": 1.0}
    with pytest.raises(
        Invalid, match="cost: must be a number, not null|cost: must be a number, not a string"
    ):
        check({"cost": "1"}, CONTAINERS)


def test_hidden_fields_are_unknown() -> None:
    with pytest.raises(Invalid, match="unknown attribute 'secret_hash'"):
        check({"secret_hash": "x"}, TOKENS)


def test_uuids_are_chosen_by_admins() -> None:
    assert check({"uuid": UUID}) == {"uuid": UUID}
    assert check({"uuid": None}) == {}
    with pytest.raises(Forbidden, match="Uuid assignment not permitted"):
        check({"uuid": UUID}, admin=False)
    for wrong in ("x", 5, "aaaaa-4zz18-000000000000000"):
        with pytest.raises(Invalid, match="not a uuid of this cluster"):
            check({"uuid": wrong})
    with pytest.raises(Invalid, match="expected 'o0j2j'"):
        check({"uuid": UUID}, LINKS)


def test_uuids_stay() -> None:
    assert check({"uuid": UUID}, stored={"uuid": UUID}) == {}
    with pytest.raises(Invalid, match="Uuid change not permitted"):
        check({"uuid": None}, stored={"uuid": UUID})


def test_null_in_words() -> None:
    with pytest.raises(Invalid, match="not null"):
        attributes.moment("x", None)


def test_texts_that_are_looked_up_have_a_bound() -> None:
    long = "\u00e9" * (attributes.MAX_LOOKED_UP // 2)
    assert check({"name": long})["name"] == long
    with pytest.raises(
        Invalid, match="name: has 1025 bytes; records are looked up by it, so that it may have 1024"
    ):
        check({"name": long + "x"})
    assert check({"description": long + "x"})["description"] == long + "x"
    assert check({"name": long + "x"}, stored={"name": long + "x"})["name"] == long + "x"


@pytest.mark.parametrize("value", [10**400, -(10**400), float("inf"), float("nan"), 1e301])
def test_numbers_have_a_bound(value: JSON) -> None:
    with pytest.raises(Invalid, match=r"progress: must be a number from -1e\+300 to 1e\+300"):
        check({"progress": value}, CONTAINERS)
    assert check({"progress": 1}, CONTAINERS) == {"progress": 1.0}


def test_a_name_that_is_taken_gets_the_end_of_the_uuid() -> None:
    uuid = "zzzzz-4zz18-0123456789abcde"
    assert attributes.distinct_name("result", uuid) == "result (0123456789abcde)"
    assert len(attributes.distinct_name("n" * 255, uuid)) == 255
