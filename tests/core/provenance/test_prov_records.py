"""Records of PROV in PROV-N and PROV-JSON."""

from __future__ import annotations

from lading.core.provenance.prov_records import (
    ProvAttribute,
    ProvRecord,
    QualifiedName,
    element,
    prov_json,
    prov_n,
    prov_n_head,
    qualified,
    relation,
    types,
)


def test_names_are_escaped() -> None:
    assert qualified("wf", "main/a b(1)") == "wf:main/a%20b%281%29"
    assert qualified("wf", ".x.") == "wf:%2Ex%2E"
    assert qualified("wf", "-~") == "wf:%2D%7E"
    assert qualified("wf", "") == "wf:"


def test_elements() -> None:
    values = [ProvAttribute("prov:value", one) for one in ('a"\n\x01', 1, 2.5, True, 1 << 70)]
    made = element("entity", "id:1", [*types("prov:Plan"), *values])
    assert prov_n(made) == (
        'entity(id:1, [prov:type=\'prov:Plan\', prov:value="a\\"\\n\\\\u0001", '
        'prov:value="1" %% xsd:long, prov:value="2.5" %% xsd:double, '
        'prov:value="true" %% xsd:boolean, prov:value="1180591620717411303424" %% xsd:integer])'
    )
    assert prov_json(made) == {
        "prov:type": {"$": "prov:Plan", "type": "prov:QUALIFIED_NAME"},
        "prov:value": [
            'a"\n\x01',
            {"$": "1", "type": "xsd:long"},
            {"$": "2.5", "type": "xsd:double"},
            {"$": "true", "type": "xsd:boolean"},
            {"$": "1180591620717411303424", "type": "xsd:integer"},
        ],
    }


def test_activities() -> None:
    plain = ProvRecord(kind="activity", key="id:1", arguments={})
    assert prov_n(plain) == "activity(id:1)"
    timed = ProvRecord(kind="activity", key="id:1", arguments={"prov:endTime": "2026-01-01"})
    assert prov_n(timed) == "activity(id:1, -, 2026-01-01)"
    assert prov_json(timed) == {"prov:endTime": "2026-01-01"}


def test_relations_have_a_mark_for_what_is_missing() -> None:
    role = [ProvAttribute("prov:role", QualifiedName("wf:main/x"))]
    used = relation("used", "id:a", "id:e", "", attributes=role)
    assert prov_n(used) == "used(id:a, id:e, -, [prov:role='wf:main/x'])"
    assert prov_json(used) == {
        "prov:activity": "id:a",
        "prov:entity": "id:e",
        "prov:role": {"$": "wf:main/x", "type": "prov:QUALIFIED_NAME"},
    }
    assert prov_n(relation("hadMember", "id:c", "id:e")) == "hadMember(id:c, id:e)"


def test_a_document_begins_with_its_prefixes() -> None:
    assert list(prov_n_head({"id": "urn:uuid:"})) == ["document", "  prefix id <urn:uuid:>"]
