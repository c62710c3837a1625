"""Files of trees."""

from __future__ import annotations

from hypothesis import strategies as st

from lading.core.data.filetree import File, Segment

FOO = "acbd18db4cc2f85cedef654fccc4a4d8+3"
BAR = "37b51d194a7513e45b56f6524f2d51f2+3"
SIGNED = f"{FOO}+A{'0' * 40}@7fffffff"
segments = st.tuples(st.sampled_from([FOO, BAR]), st.integers(0, 1), st.integers(1, 2))


def make_file(*segments: tuple[str, int, int]) -> File:
    return File(tuple(Segment(*segment) for segment in segments))


FILE = make_file((FOO, 0, 3))


OTHER = make_file((BAR, 0, 3))
