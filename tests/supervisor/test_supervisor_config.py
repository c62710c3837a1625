from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lading.core.errors import Invalid
from lading.supervisor import supervisor_config
from lading.supervisor.supervisor_config import SupervisorConfig

GOOD = {
    "container_uuid": "zzzzz-dz642-000000000000001",
    "supervisor_token": "v2/zzzzz-gj3su-000000000000001/hush",
    "run_directory": "/run/x",
    "cache_directory": "/cache",
    "api_socket": "/api.sock",
}


def test_an_assignment_survives_the_journey() -> None:
    given = SupervisorConfig(**GOOD)  # type: ignore[arg-type]
    assert supervisor_config.parse(msgspec.json.encode(given)) == given
    assert supervisor_config.convert(msgspec.to_builtins(given)) == given


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"container_uuid": "x"}, "container_uuid"),
        ({"container_uuid": "zzzzz-4zz18-000000000000001"}, "container_uuid"),
        ({"api_socket": ""}, "api_url"),
        ({"run_directory": "run"}, "run_directory"),
        ({"cache_directory": ""}, "cache_directory"),
        ({"cache_size": "much"}, "cache_size"),
    ],
)
def test_what_cannot_be_carried_out_is_named(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as caught:
        supervisor_config.parse(msgspec.json.encode({**GOOD, **change}))
    assert "hush" not in caught.value.message
    with pytest.raises(Invalid, match=fault):
        supervisor_config.convert({**GOOD, **change})


def test_the_token_is_not_shown() -> None:
    assert "hush" not in repr(SupervisorConfig(**GOOD))  # type: ignore[arg-type]
