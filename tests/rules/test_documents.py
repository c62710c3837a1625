"""Every console block of the documentation is run by tests/docs, or its page says why not."""

from __future__ import annotations

import re
from typing import Final

from tests.docs.pages import ROOT, Block, blocks, pages
from tests.docs.sites import SITES
from tests.rules.sources import refuse

# A command of pip with the name of Lading or of its plugins alone, not a path.
_FROM_INDEX: Final = re.compile(
    r"`?pip3? install[^`\n]*?[ '\"](lading|snakemake-\w+-plugin-lading)(?=[\[ '\"`\n]|$)[^\n]?"
)


def test_a_block_is_run_or_says_why_not() -> None:
    shown = [one for page in pages() for one in blocks(page) if one.has_commands]
    assert shown
    refuse(f"{one.page}:{one.line}: {fault}" for one in shown if (fault := _fault(one)))


def test_pages_install_from_a_checkout_or_a_wheel() -> None:
    """No index has Lading: what has its name there is not ours."""
    plugins = [str(path.relative_to(ROOT)) for path in ROOT.glob("plugins/*/README.md")]
    refuse(
        f"{page}: {found[0]}"
        for page in (*pages(), *plugins)
        for found in _FROM_INDEX.finditer((ROOT / page).read_text())
        # The page that warns of it.
        if found[0] != "`pip install lading`"
    )


def _fault(one: Block) -> str:
    if one.reason:
        return "" if len(one.reason.split()) >= 4 else "a reason is a sentence"
    if one.language != "console":
        return "commands and their output are fenced as console"
    if one.place not in SITES:
        return f"tests/docs/sites.py has no site {one.place!r}"
    return "" if one.steps else "has no command after a prompt"
