from __future__ import annotations

from typing import Any

import pytest

from lading.blobs.transfer import BlockAnswer, refusal
from lading.blobs.transfer_memory import Memory
from lading.core.errors import Full, LadingError, NotFound, TooLarge, Unavailable


@pytest.mark.parametrize(
    ("error", "again", "closes"),
    [
        (NotFound("x"), False, False),
        (TooLarge("x"), False, True),
        (Unavailable("x"), True, True),
        (Full("x"), False, True),
    ],
)
def test_errors_say_whether_to_come_again(error: LadingError, again: bool, closes: bool) -> None:
    answer = refusal(error)
    assert (answer.status_code, answer.body) == (error.status, b"x\n")
    assert ("retry-after" in answer.headers) == again
    assert ("connection" in answer.headers) == closes


async def test_a_block_gives_its_memory_back_when_it_was_sent_or_could_not_be() -> None:
    memory, sent = Memory(0), list[Any]()

    async def send(message: Any) -> None:
        sent.append(bytes(message.get("body", b"")))
        if len(sent) > 3:
            raise ConnectionError

    for size in (3, 3 << 20):
        room = await memory.take(size, "block")
        answer, error = BlockAnswer(room.view, size, {}, room=room), None
        sent.clear()
        try:
            await answer({}, None, send)  # type: ignore[arg-type]
        except ConnectionError as raised:
            error = raised
        assert (error is not None) == (size > 3)
        assert memory.taken == 0
