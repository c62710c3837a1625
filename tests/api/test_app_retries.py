"""A transaction that the database gave up is tried again, a few times, from the start of the
request.
"""

from __future__ import annotations

import pytest

from lading.store.database import TransactionInterrupted
from lading.testing.world import World


@pytest.mark.parametrize(("failures", "status"), [(1, 200), (3, 200), (4, 503)])
async def test_given_up_and_tried_again(
    it: World, monkeypatch: pytest.MonkeyPatch, failures: int, status: int
) -> None:
    real, left = it.database.writing, iter(range(failures))

    def writing() -> object:
        if next(left, None) is not None:
            raise TransactionInterrupted
        return real()

    monkeypatch.setattr(it.database, "writing", writing)
    reply = await it.request("POST", "collections", {"collection": {"name": "once"}})
    assert reply.status == status
    found = await it.ok("GET", "collections", params={"filters": [["name", "=", "once"]]})
    assert len(found["items"]) == (status == 200)
