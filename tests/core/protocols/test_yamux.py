"""The multiplexer, as the specification has it, and between two of its kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Malformed
from lading.core.protocols.yamux import (
    HEADER,
    MOST_DATA,
    WINDOW,
    Data,
    Event,
    Finished,
    Flag,
    FrameKind,
    GoneAway,
    Multiplexer,
    Opened,
    Pong,
    Reset,
    WindowUpdate,
)


def frame(kind: int, flags: int = 0, stream: int = 0, length: int = 0, body: bytes = b"") -> bytes:
    return HEADER.pack(0, kind, flags, stream, length or len(body)) + body


def pair() -> tuple[Multiplexer, Multiplexer]:
    return Multiplexer(connected=True), Multiplexer(connected=False)


def opened(most: int = 1024) -> tuple[Multiplexer, Multiplexer, int]:
    """The server has opened a stream that the client knows of."""
    client, server = Multiplexer(connected=True, most=most), Multiplexer(connected=False)
    stream = server.open()
    assert client.receive(server.take()) == [Opened(stream)]
    assert server.receive(client.take()) == []
    return client, server, stream


def test_frames_are_those_of_the_specification() -> None:
    server = Multiplexer(connected=False)
    assert server.open() == 2
    assert server.take() == bytes([0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0])
    assert server.send(2, b"ab") == 2
    assert server.take() == bytes([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2]) + b"ab"
    assert Multiplexer(connected=True).open() == 1


def test_data_goes_both_ways_and_ends_each_way_alone() -> None:
    client, server, stream = opened()
    client.send(stream, b"one")
    client.finish(stream)
    client.finish(stream)
    assert server.receive(client.take()) == [Data(stream, b"one"), Finished(stream)]
    server.send(stream, b"two")
    server.finish(stream)
    assert client.receive(server.take()) == [Data(stream, b"two"), Finished(stream)]
    assert client.streams == server.streams == ()


def test_frames_may_come_in_any_pieces() -> None:
    client, server, stream = opened()
    server.send(stream, b"abc")
    server.finish(stream)
    events = [event for byte in server.take() for event in client.receive(bytes([byte]))]
    assert events == [Data(stream, b"a"), Data(stream, b"b"), Data(stream, b"c"), Finished(stream)]


def test_what_is_sent_is_bounded_by_the_window() -> None:
    client, server, stream = opened()
    data = bytes(WINDOW + 10)
    assert server.send(stream, data) == WINDOW
    assert (server.send(stream, b"x"), server.room(stream)) == (0, 0)
    events = client.receive(server.take())
    assert [len(one.data) for one in events if isinstance(one, Data)] == [MOST_DATA] * (
        WINDOW // MOST_DATA
    )
    client.consumed(stream, 10)
    assert client.take() == b""
    client.consumed(stream, WINDOW // 2)
    assert server.receive(client.take()) == [WindowUpdate(stream)]
    assert server.room(stream) == WINDOW // 2 + 10


def test_a_stream_that_is_given_up() -> None:
    client, server, stream = opened()
    server.reset(stream)
    server.reset(stream)
    assert client.receive(server.take()) == [Reset(stream)]
    client.consumed(stream, WINDOW)
    client.finish(stream)
    assert (client.take(), client.room(stream), client.send(stream, b"x")) == (b"", 0, 0)


def test_what_comes_for_a_stream_that_is_gone_is_dropped() -> None:
    client = Multiplexer(connected=True)
    said = (
        frame(FrameKind.DATA, 0, 2, body=b"late")
        + frame(FrameKind.WINDOW, Flag.FIN, 2, 5)
        + frame(FrameKind.PING, Flag.SYN, 0, 7)
    )
    assert client.receive(said) == []
    assert client.take() == frame(FrameKind.PING, Flag.ACK, 0, 7)


def test_pings_and_farewells() -> None:
    client, server = pair()
    client.ping(9)
    assert server.receive(client.take()) == []
    assert client.receive(server.take()) == [Pong(9)]
    server.go_away(2)
    assert client.receive(server.take()) == [GoneAway(2)]


def test_too_many_streams_are_refused_alone() -> None:
    client, server, _ = opened(most=1)
    second = server.open()
    assert client.receive(server.take()) == []
    assert server.receive(client.take()) == [Reset(second)]


def test_a_second_end_says_nothing_new() -> None:
    client, _, stream = opened()
    assert client.receive(frame(FrameKind.WINDOW, Flag.FIN, stream)) == [Finished(stream)]
    assert client.receive(frame(FrameKind.WINDOW, Flag.FIN, stream)) == []
    client.consumed(stream, WINDOW)
    assert client.take() == b""


@pytest.mark.parametrize(
    "bad",
    [
        HEADER.pack(1, 0, 0, 0, 0), frame(4), frame(0, 16), frame(1, Flag.SYN, 0),
        frame(1, Flag.SYN, 3), frame(1, Flag.SYN, 2), frame(0, 0, 2, WINDOW + 1),
        frame(0, 0, 8, WINDOW + 1), frame(0, Flag.FIN, 2) + frame(0, 0, 2, body=b"more"),
    ],
)  # fmt: skip
def test_a_fault_of_the_peer_ends_it(bad: bytes) -> None:
    client, _, stream = opened()
    assert stream == 2
    with pytest.raises(Malformed, match="yamux"):
        client.receive(bad)
    assert client.take() == frame(FrameKind.GO_AWAY, 0, 0, 1)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=200_000)), max_size=12),
    st.lists(st.integers(1, 70_000), min_size=1, max_size=20),
)
def test_everything_arrives_once_and_in_order(
    writes: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    client, server = pair()
    streams = [server.open() for _ in range(3)]
    wanted: dict[int, bytes] = dict.fromkeys(streams, b"")
    got: dict[int, bytes] = dict.fromkeys(streams, b"")
    ended: set[int] = set()

    def carry() -> None:
        said, at, turn = server.take(), 0, 0
        while at < len(said):
            size = cuts[turn % len(cuts)]
            for event in client.receive(said[at : at + size]):
                note(event)
            at, turn = at + size, turn + 1
        server.receive(client.take())

    def note(event: Event) -> None:
        if isinstance(event, Data):
            got[event.stream] += event.data
            client.consumed(event.stream, len(event.data))
        elif isinstance(event, Finished):
            ended.add(event.stream)

    for number, data in writes:
        stream = streams[number]
        wanted[stream] += data
        while data:
            data = data[server.send(stream, data) :]
            carry()
    for stream in streams:
        server.finish(stream)
    carry()
    assert got == wanted
    assert ended == set(streams)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fall_over(data: bytes) -> None:
    client, _, _ = opened()
    try:
        client.receive(data)
    except Malformed:
        return
