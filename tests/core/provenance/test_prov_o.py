"""Runs in PROV-O."""

from __future__ import annotations

from lading.core.provenance.prov_o import ProvGraph
from tests.core.provenance.test_run_crate import IMAGE, IN, OUT, make_step


def test_activities_use_and_make_entities() -> None:
    graph = ProvGraph()
    first = list(graph.step(make_step(1, agent="Ann")))
    mounts = {"/a": {"kind": "collection", "portable_data_hash": OUT}}
    second = list(graph.step(make_step(2, mounts=mounts, output=None)))
    activity = first[0]
    assert activity["used"] == [f"urn:lading:{IMAGE}", f"urn:lading:{IN}"]
    assert "wasInformedBy" not in activity
    assert {one["@id"]: one for one in first}[f"urn:lading:{OUT}"]["wasGeneratedBy"] == (
        activity["@id"]
    )
    assert second[0]["wasInformedBy"] == [activity["@id"]]
    assert [one["@id"] for one in second] == [second[0]["@id"]]


def test_a_shared_container_is_one_activity() -> None:
    graph = ProvGraph()
    assert list(graph.step(make_step()))
    assert list(graph.step(make_step())) == []
