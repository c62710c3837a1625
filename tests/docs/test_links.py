"""Links of the documentation lead to files and headings that are there, and messages on the page of
troubles are those of the program.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

pytestmark = pytest.mark.quick

PAGES = (*pages(), "SECURITY.md")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)


def slugs(path: Path) -> set[str]:
    """The anchors of a page, as GitHub and MyST make them of its headings."""
    text = _FENCE.sub("", path.read_text())
    found = (re.sub(r"[`*_]", "", one) for one in re.findall(r"^#+ +(.+)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page(page: str) -> None:
    path = ROOT / page
    for target in _LINK.findall(_FENCE.sub("", path.read_text())):
        if re.match(r"[a-z]+:", target):
            assert target.startswith(("https://", "http://", "mailto:")), target
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{page}: {target}: no such file"
        assert there.is_relative_to(ROOT), f"{page}: {target}: outside the repository"
        if anchor:
            assert anchor in slugs(there), f"{page}: {target}: no such heading"


def test_each_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs/index.md").read_text() + (ROOT / "docs/spec/index.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or re.search(rf"^{path.stem}$", index, re.MULTILINE), path


def test_messages_on_the_page_of_troubles_are_in_the_program() -> None:
    files = (ROOT / "src/lading").rglob("*.py")
    # Adjacent strings are one.
    source = re.sub(r'"\s+f?"', "", "\n".join(path.read_text() for path in files))
    text = (ROOT / "docs/troubleshooting.md").read_text()
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    shown = [one for cell in cells for one in re.findall(r"`([^`]+)`", cell)]
    assert len(shown) > 10
    for message in shown:
        for part in re.split(r"\b[A-Z]\b", message):
            assert part in source, f"{message!r}: the program never says {part!r}"
