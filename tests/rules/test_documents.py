"""Every console block of the documentation is run by tests/docs, or its page says why not."""

from __future__ import annotations

from tests.docs.pages import Block, blocks, pages
from tests.docs.sites import SITES
from tests.rules.sources import refuse


def test_a_block_is_run_or_says_why_not() -> None:
    shown = [one for page in pages() for one in blocks(page) if one.has_commands]
    assert shown
    refuse(f"{one.page}:{one.line}: {fault}" for one in shown if (fault := _fault(one)))


def _fault(one: Block) -> str:
    if one.reason:
        return "" if len(one.reason.split()) >= 4 else "a reason is a sentence"
    if one.language != "console":
        return "commands and their output are fenced as console"
    if one.place not in SITES:
        return f"tests/docs/sites.py has no site {one.place!r}"
    return "" if one.steps else "has no command after a prompt"
