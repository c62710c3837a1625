from __future__ import annotations

from typing import Any

import pytest

from lading.core.scheduling.immediate_start import starts_at_once
from tests.records import make_container

IMAGE = "acbd18db4cc2f85cedef654fccc4a4d8+3"
PLAIN: dict[str, Any] = {"container_image": IMAGE, "mounts": {"/out": {"kind": "tmp"}}}


def test_a_container_without_anything_to_prepare_starts_at_once() -> None:
    container = make_container(**PLAIN)
    assert starts_at_once(container, {IMAGE})
    mounts: dict[str, Any] = {
        "stdout": {"kind": "file", "path": "/out/o"},
        "stdin": {"kind": "text", "content": "a"},
        "/out/order": {"kind": "json", "content": {}},
        **PLAIN["mounts"],
    }
    assert starts_at_once(make_container(**PLAIN | {"mounts": mounts}), {IMAGE})


@pytest.mark.parametrize(
    "changes",
    [
        {"container_image": "37b51d194a7513e45b56f6524f2d51f2+3"},
        {"mounts": {"/in": {"kind": "collection", "portable_data_hash": IMAGE}}},
        {"mounts": {"/in": {"kind": "git_tree"}}},
        {"mounts": {"stdin": {"kind": "file", "path": "/out/i"}}},
        {"mounts": {"/in": "no mount"}},
        {"secret_mounts_md5": "37b51d194a7513e45b56f6524f2d51f2"},
        {"steps": [{"command": ["true"]}]},
        {"published_ports": {"80": {}}},
        {"service": True},
        {"scheduling_parameters": {"nodes": 2}},
        {"runtime_constraints": {"gpu": {"device_count": 1}}},
    ],
)
def test_any_other_container_is_locked_first(changes: dict[str, Any]) -> None:
    assert not starts_at_once(make_container(**PLAIN | changes), {IMAGE})
