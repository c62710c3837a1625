"""What a line is told; what it carries: `test_outpost`."""

from __future__ import annotations

import os

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.gang import remote_rank_client


@pytest.mark.parametrize(
    ("said", "words"), [(b"", "the destination of the connection"), (b"{}\n", "cannot be read")]
)
def test_a_line_without_a_course_says_so(said: bytes, words: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, said)
    os.close(writing)
    try:
        with pytest.raises(ExecutionError, match=words):
            remote_rank_client.read_course(reading)
    finally:
        os.close(reading)
