from __future__ import annotations

from lading.core.protocols.connection_limits import ConnectionTable, HttpLimits
from lading.net.acceptor import PEER, Peer, end, note_known


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
