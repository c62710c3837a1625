from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Unavailable
from lading.core.protocols.connection_limits import LOCAL, ConnectionTable, HttpLimits
from lading.net.acceptor import PEER, FindUser, Peer, end, note_holder, note_known, note_token


def _scope(
    table: ConnectionTable, address: str = "10.0.0.1", find: FindUser | None = None
) -> dict[str, Any]:
    connection, _ = table.admit(address, 0.0)
    assert connection is not None
    return {"state": {PEER: Peer(table, connection, find_user=find)}}


def test_a_user_with_too_many_connections_is_told() -> None:
    table = ConnectionTable(HttpLimits(connections_per_user=1))
    note_holder({}, "ann")
    note_holder(_scope(table), "ann")
    note_holder(_scope(table), "bob")
    with pytest.raises(Unavailable, match="1 requests of this user.*MaxConnectionsPerUser"):
        note_holder(_scope(table), "ann")


async def test_connections_with_a_token_count_for_its_user() -> None:
    table, asked = ConnectionTable(HttpLimits(connections_per_user=1)), []

    async def find(token: str) -> str:
        asked.append(token)
        return "ann"

    await note_token({}, "t")
    await note_token(_scope(table), "t")
    await note_token(_scope(table, LOCAL, find), "t")
    await note_token(_scope(table, find=find), "")
    assert asked == []
    await note_token(_scope(table, find=find), "t")
    with pytest.raises(Unavailable):
        await note_token(_scope(table, find=find), "u")
    assert asked == ["t", "u"]


def test_an_application_says_who_is_known() -> None:
    table = ConnectionTable(HttpLimits())
    connection, _ = table.admit("10.0.0.1", 0.0)
    assert connection is not None
    peer = Peer(table, connection)
    note_known({})
    note_known({"state": {PEER: peer}})
    assert connection.is_known
    peer.leave()


async def test_an_application_ends_a_connection() -> None:
    table, ended = ConnectionTable(HttpLimits()), []
    connection, _ = table.admit("10.0.0.1", 0.0)
    assert connection is not None
    await end({})
    await end({"state": {PEER: Peer(table, connection, abort=lambda: ended.append(1))}})
    assert ended == [1]
