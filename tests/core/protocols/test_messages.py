from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.net import rpc


def test_a_message_is_one_line_of_json() -> None:
    data = rpc.encode({"a": "x\ny"})
    assert b"\n" not in data
    assert rpc.decode(data, dict[str, str]) == {"a": "x\ny"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"a": 1}', b"\xff"])
def test_another_type_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="cannot be read"):
        rpc.decode(data, dict[str, str])


def test_nonsense_is_an_empty_object() -> None:
    assert rpc.read_object(b"[]") == rpc.read_object(b"\xff") == {}
    assert rpc.read_object(b'{"a": 1}') == {"a": 1}


def test_replies_belong_to_a_request() -> None:
    assert rpc.request_number({"id": 3}) == 3
    assert rpc.request_number({"id": "x"}) == rpc.request_number({}) == 0


def test_parts_of_a_reply_are_joined() -> None:
    parts: list[rpc.Message] = [
        {"op": "a", "live": [1], "more": True},
        {"op": "a", "more": True},
        {"op": "b", "live": [2], "dead": ["x"]},
    ]
    assert [rpc.is_last(one) for one in parts] == [False, False, True]
    assert rpc.join_parts(parts) == {"op": "b", "live": [1, 2], "dead": ["x"]}
