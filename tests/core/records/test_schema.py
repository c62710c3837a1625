"""What record types are made of."""

from __future__ import annotations

from lading.core.records.container_types import REQUESTS
from lading.core.records.record_types import COLLECTIONS, TOKENS


def test_names_follow_from_the_singular() -> None:
    assert (REQUESTS.schema, REQUESTS.kind) == ("ContainerRequest", "arvados#containerRequest")
    assert TOKENS.kind == "arvados#apiClientAuthorization"


def test_what_is_stored_shown_and_listed() -> None:
    assert "secret_mounts" not in REQUESTS.visible
    assert "manifest_text" in COLLECTIONS.visible
    assert "manifest_text" not in COLLECTIONS.listed
    assert "kind" not in {one.name for one in COLLECTIONS.columns}
    assert COLLECTIONS.defaults["version"] == 1
    assert COLLECTIONS.by_name["properties"].nested
    assert not COLLECTIONS.by_name["etag"].stored
