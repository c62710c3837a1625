"""Recipes of committed requests."""

from __future__ import annotations

import pytest

from lading.core.containers.recipe_resolution import RequestFacts, resolve
from lading.core.errors import Invalid
from tests.records import IMAGE, INPUT, POLICY, USER, make_request

MOUNTS = {
    "/out": {"kind": "tmp", "capacity": 1000},
    "/in": {"kind": "collection", "portable_data_hash": INPUT},
}


def test_names_are_replaced_by_hashes() -> None:
    facts = RequestFacts(image_pdh=IMAGE, hashes={INPUT: INPUT}, user_uuid=USER)
    found = resolve(make_request(mounts=MOUNTS, environment={"B": "1"}), facts, policy=POLICY)
    assert (found.container_image, found.runtime_user_uuid) == (IMAGE, USER)
    assert found.environment == {"B": "1"}


def test_an_input_that_cannot_be_read_is_refused() -> None:
    facts = RequestFacts(image_pdh=IMAGE, hashes={INPUT: None}, user_uuid=USER)
    with pytest.raises(Invalid):
        resolve(make_request(mounts=MOUNTS), facts, policy=POLICY)
