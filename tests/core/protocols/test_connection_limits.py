from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.protocols.connection_limits import (
    LOCAL,
    NEVER,
    Connection,
    ConnectionTable,
    HttpLimits,
    SharedAllowance,
)


def table_of(
    *, connections: int = 100, per_address: int = 2, trusted: tuple[str, ...] = ()
) -> ConnectionTable:
    return ConnectionTable(
        HttpLimits(
            connections=connections,
            connections_per_address=per_address,
            trusted=trusted,
            head_seconds=30.0,
        )
    )


def admitted(table: ConnectionTable, address: str, now: float = 0.0) -> Connection:
    connection, _ = table.admit(address, now)
    assert connection is not None
    return connection


def test_the_stranger_of_an_address_that_waited_longest_gives_way() -> None:
    table = table_of()
    busy, idle = admitted(table, "10.0.0.1"), admitted(table, "10.0.0.1")
    table.serve(busy)
    newcomer, dropped = table.admit("10.0.0.1", 1.0)
    assert dropped is idle
    assert newcomer is not None
    assert set(table) == {busy, newcomer}
    assert table.admit("10.0.0.2", 1.0)[1] is None


def test_a_newcomer_is_refused_where_every_stranger_of_its_address_is_served() -> None:
    table = table_of()
    for _ in range(2):
        table.serve(admitted(table, "10.0.0.1"))
    assert table.admit("10.0.0.1", 0.0) == (None, None)
    assert len(table) == 2


def test_a_known_peer_does_not_count_for_its_address() -> None:
    table = table_of(per_address=1)
    known = admitted(table, "10.0.0.1")
    table.know(known)
    table.know(known)
    stranger = admitted(table, "10.0.0.1")
    assert table.admit("10.0.0.1", 0.0)[1] is stranger
    assert known in set(table)


@pytest.mark.parametrize(
    ("address", "count"),
    [("127.0.0.1", 5), ("::ffff:127.0.0.1", 5), ("fd00::1%eth0", 5), (LOCAL, 5), ("10.0.0.1", 2)],
)
def test_trusted_networks_and_the_unix_socket_are_not_limited_by_address(
    address: str, count: int
) -> None:
    table = table_of(trusted=("127.0.0.0/8", "fd00::/8"))
    for _ in range(5):
        table.admit(address, 0.0)
    assert len(table) == count


@pytest.mark.parametrize(
    ("other", "same"), [("2001:db8::ffff:1", True), ("2001:db8:0:1::1", False)]
)
def test_a_prefix_of_ipv6_is_one_address(other: str, same: bool) -> None:
    table = table_of(per_address=1)
    first = admitted(table, "2001:db8::1")
    assert table.admit(other, 0.0)[1] is (first if same else None)


def test_what_is_no_address_is_counted_by_its_text() -> None:
    table = table_of(per_address=1)
    first = admitted(table, "somewhere")
    assert table.admit("somewhere", 0.0)[1] is first


def test_a_full_table_drops_a_stranger_before_a_known_peer_and_never_one_that_is_served() -> None:
    table = table_of(connections=3, per_address=9)
    known, stranger, served = (admitted(table, f"10.0.0.{at}") for at in range(3))
    table.serve(known)
    table.know(known)
    table.wait(known, 60.0)
    table.wait(known, 70.0)
    assert known.deadline == 70.0
    table.know(served)
    table.serve(served)
    first, dropped = table.admit("10.0.0.9", 0.0)
    assert dropped is stranger
    assert first is not None
    table.serve(first)
    second, dropped = table.admit("10.0.0.9", 0.0)
    assert dropped is known
    assert second is not None
    table.serve(second)
    assert table.admit("10.0.0.9", 0.0) == (None, None)
    # Local processes are not counted.
    assert table.admit(LOCAL, 0.0)[0] is not None


def test_deadlines() -> None:
    table = table_of()
    one, local = admitted(table, "10.0.0.1", 5.0), admitted(table, LOCAL, 5.0)
    assert table.overdue(34.9) == []
    assert table.overdue(35.0) == [one, local]
    table.serve(one)
    assert one.deadline == NEVER
    table.stall(one, 100.0)
    assert one.deadline == 100.0 + table.limits.idle_seconds
    table.serve(one)
    table.know(one)
    table.stall(one, 100.0)
    assert one.deadline == 100.0 + table.limits.stall_seconds
    table.release(local)
    assert table.overdue(NEVER) == [one]


def test_new_deadlines_are_told() -> None:
    table, told = table_of(), list[float]()
    table.listeners.append(told.append)
    assert table.next_deadline() == NEVER
    one = admitted(table, "10.0.0.1", 5.0)
    table.serve(one)
    assert table.next_deadline() == NEVER
    table.wait(one, 40.0)
    assert told == [35.0, 40.0]
    assert table.next_deadline() == 40.0


def test_a_user_has_a_part_of_the_connections_in_use() -> None:
    table = ConnectionTable(HttpLimits(connections_per_user=2, trusted=()))
    first, second, third = (admitted(table, f"10.0.0.{number}") for number in range(3))
    for connection in (first, second, third):
        table.serve(connection)
    assert table.hold(first, "ann")
    assert table.hold(first, "ann")
    assert table.hold(second, "ann")
    assert not table.hold(third, "ann")
    assert table.hold(third, "bob")
    # What waits for its next request, and what has ended, count no more.
    table.wait(first, 1.0)
    assert first.holder == ""
    table.serve(first)
    assert table.hold(third, "ann")
    assert not table.hold(first, "ann")
    table.release(second)
    table.release(second)
    assert table.hold(first, "ann")


def test_the_unix_socket_nobody_and_an_ended_connection_count_for_no_user() -> None:
    table = ConnectionTable(HttpLimits(connections_per_user=0, trusted=()))
    ended = admitted(table, "10.0.0.1")
    table.release(ended)
    assert table.hold(ended, "ann")
    assert table.hold(admitted(table, LOCAL), "ann")
    assert table.hold(admitted(table, "10.0.0.1"), "")
    assert not table.hold(admitted(table, "10.0.0.1"), "ann")


def test_what_was_released_is_not_counted_whatever_it_does_then() -> None:
    table = table_of(connections=2, per_address=1)
    one = admitted(table, "10.0.0.1")
    table.serve(one)
    table.release(one)
    table.release(one)
    table.wait(one, 1.0)
    table.know(one)
    assert len(table) == 0
    assert table.longest_waiting() is None
    assert table.admit("10.0.0.1", 0.0)[1] is None


def test_a_trusted_network_that_is_none_is_named() -> None:
    with pytest.raises(Invalid, match="TrustedProxies: 'everywhere' is not a network"):
        table_of(trusted=("everywhere",))


def test_an_allowance_is_shared() -> None:
    allowance = SharedAllowance(10)
    assert allowance.take(6)
    assert not allowance.take(5)
    assert allowance.take(4)
    allowance.give_back(6)
    assert allowance.taken == 4
