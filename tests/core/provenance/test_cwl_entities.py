"""Entities of the values of parameters."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lading.core.provenance.cwl_entities import ValueEntities, derived_uuid
from lading.core.provenance.prov_records import ProvRecord


def make(entities: ValueEntities, value: Any, use: str = "use") -> tuple[list[ProvRecord], str]:
    """The records of a value, and the name of its entity."""
    making, found = entities.value(value, use), []
    while True:
        try:
            found.append(next(making))
        except StopIteration as end:
            return found, end.value


def file(name: str, digest: str = "aa", **more: Any) -> dict[str, Any]:
    """A file of the bag."""
    return {"class": "File", "basename": name, "checksum": f"sha1${digest}", **more}


def told(record: ProvRecord, name: str) -> list[Any]:
    """The values of an attribute."""
    return [value for key, value in record.attributes if key == name]


def test_names_are_uuids_of_version_5() -> None:
    assert derived_uuid("urn:x") == str(uuid5(NAMESPACE_URL, "urn:x"))


def test_equal_files_are_one_entity() -> None:
    entities = ValueEntities()
    records, key = make(entities, file("a.txt"))
    assert [one.kind for one in records] == ["entity", "entity", "specializationOf"]
    assert told(records[0], "cwlprov:nameext") == [".txt"]
    assert records[1].key == "data:aa"
    assert make(entities, file("a.txt", size=3)) == ([], key)
    other, different = make(entities, file("b.txt"))
    assert different != key
    # Its content is known.
    assert [one.kind for one in other] == ["entity", "specializationOf"]


def test_a_file_elsewhere_is_named_by_its_location() -> None:
    records, _ = make(ValueEntities(), {"class": "File", "location": "https://host/x"})
    assert told(records[0], "prov:location") == ["https://host/x"]
    assert len(records) == 1


def test_secondary_files_are_derived() -> None:
    records, key = make(ValueEntities(), file("a.bam", secondaryFiles=[file("a.bai", "bb")]))
    (derived,) = [one for one in records if one.kind == "wasDerivedFrom"]
    assert derived.arguments["prov:usedEntity"] == key
    assert told(derived, "prov:type") == ["cwlprov:SecondaryFile"]


def test_directories_have_members() -> None:
    inner = {"class": "Directory", "listing": []}
    folder = {"class": "Directory", "basename": "d", "listing": [file("a"), inner]}
    entities = ValueEntities()
    records, key = make(entities, folder)
    members = [one for one in records if one.kind == "hadMember"]
    assert [one.arguments["prov:collection"] for one in members] == [key, key]
    (own,) = [one for one in records if one.key == key]
    assert len(told(own, "prov:hadDictionaryMember")) == 2
    assert make(entities, folder) == ([], key)


def test_lists_and_records_are_collections_of_one_use() -> None:
    entities = ValueEntities()
    records, key = make(entities, [1, None, {"x": "text"}], "step/in")
    values = [told(one, "prov:value") for one in records if told(one, "prov:value")]
    assert values == [[1], ["text"]]
    assert sum(one.kind == "hadMember" for one in records) == 3
    assert make(entities, [1], "other/in")[1] != key


def test_deep_values_are_text() -> None:
    deep: Any = None
    for _ in range(100):
        deep = [deep, 1]
    records, _ = make(ValueEntities(), deep)
    texts = [value for one in records for value in told(one, "prov:value")]
    assert any(isinstance(text, str) and text.startswith("[[") for text in texts)
