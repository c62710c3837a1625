"""Every console block of the documentation is run by tests/docs, or its page says why not."""

from __future__ import annotations

import pytest

from tests.docs.pages import Block, blocks, pages
from tests.docs.sites import SITES

BLOCKS = [one for page in pages() for one in blocks(page) if one.has_commands]


def _name(one: Block) -> str:
    return f"{one.page}:{one.line}"


@pytest.mark.parametrize("one", BLOCKS, ids=_name)
def test_a_block_is_run_or_says_why_not(one: Block) -> None:
    if one.reason:
        assert len(one.reason.split()) >= 4, "a reason is a sentence"
    else:
        assert one.language == "console", "commands and their output are fenced as console"
        assert one.place in SITES
        assert one.steps
