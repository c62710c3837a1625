"""Citations resolve: `docs/spec/PAGE, section NAME` is a heading there, and no other document is
cited.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPECIFICATIONS = ROOT / "docs" / "spec"
PAGES = {page.stem for page in SPECIFICATIONS.glob("*.md")}
SOURCES = [
    path
    for top in ("src", "tests", "bench", "docs", "examples")
    for path in sorted((ROOT / top).rglob("*.py"))
    if path != Path(__file__)
]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_CITED = re.compile(r"docs/spec/([\w-]+)(?:\.md)?, section ([^\n.;,()\"`]+)")
_LIST = re.compile(r"docs/spec/([\w-]+)(?:\.md)?, sections ([^.;:()\"`]+)")
_PAGE = re.compile(r"docs/spec/([a-z][\w-]*)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE = re.compile(r"(?<![\w/~.*-])((?:docs/)?[a-z][\w/-]*\.md)\b")
_OUTSIDE = re.compile(
    r"\b[\w-]+-contract\b"
    r"|\bseed \d{3}\b|\bof the seed\b"
    r"|\b[Cc]ontract [A-F\d]|\b[Dd]ecision \d|§"
    r"|\b[A-F]\.\d{1,2}\b"
    r"|\((?:[A-F\d]{1,2}\.\d{1,2}(?:, )?)+\)"
    r"|\((?:architecture|docs|contract)[:,] [^)]*\)"
)
"""A document outside of the repository, or a section by its number alone. Standards have their name
before it.
"""
_OUTSIDE_DOCUMENTS = re.compile(
    r"\b[\w-]+-contract\.md\b|\bseed \d{3}\b|\b(?:lab|style|vocabulary|provenance)\.md\b"
)


def _sections(page: str) -> set[str]:
    return set(_HEADING.findall((SPECIFICATIONS / f"{page}.md").read_text()))


def _joined(path: Path) -> str:
    """A file without its line breaks: names may stand on two lines."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text())


def _is_list(text: str, names: set[str]) -> bool:
    """Whether a text begins with several names of sections."""
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    return re.match(rf"(?:{one})(?:, (?:{one}))* and (?:{one})(?!\w)", text) is not None


def _prose(source: str) -> Iterator[str]:
    """Docstrings and comments of a module, with blanks for line breaks."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield " ".join(text.split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _faults(text: str) -> list[str]:
    """Citations of documents that are not in the repository."""
    missing = [
        one
        for one in _FILE.findall(text)
        if not any((top / one).is_file() for top in (ROOT, ROOT / "docs"))
    ]
    return missing + [found.group() for found in _OUTSIDE.finditer(text)]


def test_cited_sections_are_there() -> None:
    cited = {
        (str(path.relative_to(ROOT)), *found)
        for path in SOURCES
        for found in _CITED.findall(_joined(path))
    }
    written = {page: _sections(page) for page in PAGES}
    assert "hpc-daemon" in written
    assert [one for one in sorted(cited) if one[2].strip() not in written.get(one[1], ())] == []


def test_lists_of_sections_name_sections() -> None:
    cited = {
        (str(path.relative_to(ROOT)), *found)
        for path in SOURCES
        for found in _LIST.findall(_joined(path))
    }
    assert cited
    assert [
        one
        for one in sorted(cited)
        if one[1] not in PAGES or not _is_list(one[2], _sections(one[1]))
    ] == []


def test_cited_pages_are_there() -> None:
    cited = {
        (str(path.relative_to(ROOT)), page)
        for path in SOURCES
        for page in _PAGE.findall(path.read_text())
    }
    assert [one for one in sorted(cited) if one[1] not in PAGES] == []


def test_no_module_cites_a_document_that_is_not_here() -> None:
    cited = {
        (str(path.relative_to(ROOT)), fault)
        for path in SOURCES
        for text in _prose(path.read_text())
        for fault in _faults(text)
    }
    assert sorted(cited) == []


def test_no_page_cites_a_document_that_is_not_here() -> None:
    cited = [
        (str(path.relative_to(ROOT)), _OUTSIDE_DOCUMENTS.findall(path.read_text()))
        for path in DOCUMENTS
    ]
    assert [one for one in cited if one[1]] == []


@pytest.mark.parametrize(
    "text",
    [
        "Reads of records (api-contract 4.7).", "Tokens (5.2).", "As in contract 3.2",
        "seed 003 says so", "the locking scenarios of the seed, with", "facts of lab.md",
        "see hpc-daemon-contract", "E.2 the chaos", "decision 12",
        "(architecture, `core.filetree`)", "(docs/nothing.md)",
    ],
)  # fmt: skip
def test_citations_of_other_documents_are_found(text: str) -> None:
    assert _faults(text)


@pytest.mark.parametrize(
    "text", ["RFC 9112, 6.3", "(RFC 4918, 7.3)", "docs/sharing.md", "Python (3.11 or later)"]
)
def test_standards_and_pages_may_be_cited(text: str) -> None:
    assert not _faults(text)
