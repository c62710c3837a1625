"""The values of a server: none is that of one feature."""

from __future__ import annotations

import dataclasses
import sys
from subprocess import run

from lading.api.services import ApiServices

_FEATURES = (
    "expectations", "fair_shares", "learning", "logins", "metrics", "mounts",
    "quotas", "resources", "server.machine_board", "server.wait_statuses", "webhooks",
)  # fmt: skip


def test_no_feature_is_imported_for_the_values_of_a_server() -> None:
    program = "import sys, lading.api.services; print(*sys.modules)"
    words = run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    modules = set(words.split())
    assert not [name for name in _FEATURES if f"lading.api.{name}" in modules]
    assert len(dataclasses.fields(ApiServices)) <= 9
