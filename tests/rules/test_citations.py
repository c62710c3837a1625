"""Sections of the specifications that code and tests cite are there: `docs/spec/PAGE, section NAME`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECIFICATIONS = ROOT / "docs" / "spec"
_CITED = re.compile(r"docs/spec/([a-z][a-z-]*)(?:\.md)?, section ([^\n.;,()\"`]+)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _sections(page: str) -> set[str]:
    return set(_HEADING.findall((SPECIFICATIONS / f"{page}.md").read_text()))


def test_cited_sections_are_there() -> None:
    sources = [path for top in ("src", "tests") for path in sorted((ROOT / top).rglob("*.py"))]
    cited = {
        (str(path.relative_to(ROOT)), *found)
        for path in sources
        for found in _CITED.findall(path.read_text())
        if path != Path(__file__)
    }
    written = {page: _sections(page) for _, page, _ in cited if (SPECIFICATIONS / f"{page}.md").exists()}
    assert "hpc-daemon" in written
    assert [one for one in sorted(cited) if one[1] in written and one[2].strip() not in written[one[1]]] == []
