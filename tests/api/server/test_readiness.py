"""Looks at the parts of a site; through the API: tests/api/resources/test_health."""

from __future__ import annotations

from lading.api.server.readiness import ReadinessChecks


async def test_an_answer_counts_for_a_while() -> None:
    readiness, asked = ReadinessChecks(fresh=3600.0), 0

    async def look() -> None:
        nonlocal asked
        asked += 1

    for _ in range(3):
        assert await readiness.faults({"it": look}) == []
    assert asked == 1
