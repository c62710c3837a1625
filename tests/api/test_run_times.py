"""Run times of tools, as later containers have them."""

from __future__ import annotations

import pytest

from lading.testing.world import World


@pytest.mark.parametrize(("exit_code", "is_known"), [(1, False), (0, True)])
async def test_a_container_that_failed_teaches_no_run_time(
    it: World, exit_code: int, is_known: bool
) -> None:
    await it.run((await it.submit("tool", "first"))["container_uuid"], exit_code=exit_code)
    made = await it.submit("tool", "second")
    container = await it.ok("GET", f"containers/{made['container_uuid']}")
    assert ("expected_run_time" in container["scheduling_parameters"]) is is_known
