from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lading.supervisor.container_gateway.ports import Listeners, find_listeners

TITLE = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
    "timeout inode\n"
)


def table(*rows: tuple[str, str, int]) -> str:
    lines = (
        f"0: {place} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1\n"
        for place, state, inode in rows
    )
    return TITLE + "".join(lines)


LOOPBACK, EVERYWHERE, ELSEWHERE = "0100007F:1F90", "00000000:1F90", "0A00000A:1F90"
ALL6, LOOPBACK6 = f"{'0' * 32}:1F90", "00000000000000000000000001000000:1F90"
MAPPED = "0000000000000000FFFF00000100007F:1F90"


@pytest.mark.parametrize(
    ("tcp", "tcp6", "expected"),
    [
        ((), (), None),
        (((LOOPBACK, "0A", 1), (EVERYWHERE, "0A", 2)), (), ("127.0.0.1", {1})),
        (((EVERYWHERE, "0A", 2),), ((ALL6, "0A", 3),), ("127.0.0.1", {2, 3})),
        (((ELSEWHERE, "0A", 4),), (), None),
        (((LOOPBACK, "01", 5),), (), None),
        ((), ((LOOPBACK6, "0A", 6),), ("::1", {6})),
        ((), ((MAPPED, "0A", 7), (ALL6, "0A", 8)), ("127.0.0.1", {7})),
        (((LOOPBACK.replace("1F90", "1F91"), "0A", 1),), (), None),
    ],
)  # fmt: skip
def test_who_takes_a_connection(
    tcp: tuple[tuple[str, str, int], ...],
    tcp6: tuple[tuple[str, str, int], ...],
    expected: tuple[str, set[int]] | None,
) -> None:
    wanted = Listeners(expected[0], frozenset(expected[1])) if expected else None
    assert find_listeners(table(*tcp), table(*tcp6), 8080) == wanted


def test_the_tables_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        link = Path(f"/proc/self/fd/{server.fileno()}").readlink()
        found = find_listeners(
            Path("/proc/self/net/tcp").read_text(), Path("/proc/self/net/tcp6").read_text(), port
        )
    assert found is not None
    assert [f"socket:[{inode}]" for inode in found.inodes] == [str(link)]
