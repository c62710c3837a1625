"""Sections of the specifications that code and tests cite are there: `docs/spec/PAGE, section NAME`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPECIFICATIONS = ROOT / "docs" / "spec"
_CITED = re.compile(r"docs/spec/([a-z][a-z-]*)(?:\.md)?, section ([^\n.;,()\"`]+)")
_LIST = re.compile(r"docs/spec/([a-z][a-z-]*)(?:\.md)?, sections ([^.;:()]+)")
_ABROAD = re.compile(r"(?:api|dispatch)-contract|\bseed \d{3}\b|decisions\.md")
_OF_CONTAINERS = (
    "supervisor", "core/container.py", "core/lifecycle.py", "core/writers.py", "core/request.py",
    "core/request_rules.py", "core/recipe.py", "core/reuse.py", "core/retry.py", "core/finalise.py",
    "core/priority.py", "core/waiting.py", "core/constraints.py", "core/mounts.py", "core/mountplan.py",
    "core/output.py", "core/globs.py", "core/images.py", "core/imagelayout.py",
)  # fmt: skip
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _sections(page: str) -> set[str]:
    return set(_HEADING.findall((SPECIFICATIONS / f"{page}.md").read_text()))


def _joined(path: Path) -> str:
    """A file without its line breaks: names may stand on two lines."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text())


def _is_list(text: str, names: set[str]) -> bool:
    """Whether a text begins with several names of sections."""
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.match(rf"(?:{one})(?:, (?:{one}))* and (?:{one})(?!\w)", text) is not None


def test_cited_sections_are_there() -> None:
    sources = [path for top in ("src", "tests") for path in sorted((ROOT / top).rglob("*.py"))]
    cited = {
        (str(path.relative_to(ROOT)), *found)
        for path in sources
        for found in _CITED.findall(_joined(path))
        if path != Path(__file__)
    }
    written = {page: _sections(page) for _, page, _ in cited if (SPECIFICATIONS / f"{page}.md").exists()}
    assert "hpc-daemon" in written
    assert [one for one in sorted(cited) if one[1] in written and one[2].strip() not in written[one[1]]] == []


def test_lists_of_sections_name_sections() -> None:
    cited = {
        (str(path.relative_to(ROOT)), *found)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for found in _LIST.findall(_joined(path))
    }
    assert cited
    assert [one for one in sorted(cited) if not _is_list(one[2], _sections(one[1]))] == []


def test_what_the_specification_of_containers_covers_cites_nothing_outside() -> None:
    places = [ROOT / "src" / "lading" / name for name in _OF_CONTAINERS]
    sources = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    assert [str(path) for path in sources if _ABROAD.search(path.read_text())] == []
