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

from tests.rules.sources import ROOT, everywhere, refuse, shown, text

SPECIFICATIONS = ROOT / "docs" / "spec"
PAGES = {page.stem for page in SPECIFICATIONS.glob("*.md")}
SOURCES = [path for path in everywhere() if path != Path(__file__)]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_CITED = re.compile(r"docs/spec/([\w-]+)(?:\.md)?, section ([^\n.;,()\"`]+)")
_LIST = re.compile(r"docs/spec/([\w-]+)(?:\.md)?, sections ([^.;:()\"`]+)")
_PAGE = re.compile(r"docs/spec/([a-z][\w-]*)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE = re.compile(r"(?<![\w/~.*-])((?:docs/)?[a-z][\w/-]*\.md)\b")
_OUTSIDE = re.compile(
    r"(?<=[\w-])-contract\b"
    r"|\bseed \d{3}\b|\bof the seed\b"
    r"|\b[Cc]ontract [A-F\d]|\b[Dd]ecision \d|§"
    r"|\b[A-F]\.\d{1,2}\b"
    r"|(?<!\w)\((?:[A-F\d]{1,2}\.\d{1,2}(?:, )?)+\)"
    r"|\((?:architecture|docs|contract)[:,] [^)]*\)"
)
"""A document outside of the repository, or a section by its number alone. Standards have their name
before it.
"""
_OUTSIDE_DOCUMENTS = re.compile(
    r"\b[\w-]+-contract\.md\b|\bseed \d{3}\b|\b(?:lab|style|vocabulary)\.md\b"
)


def _sections(page: str) -> set[str]:
    return set(_HEADING.findall((SPECIFICATIONS / f"{page}.md").read_text()))


def _found(pattern: re.Pattern[str]) -> set[tuple[str, ...]]:
    """Citations by a pattern, each after its file; names may stand on two lines."""
    return {
        (shown(path), *found)
        for path in SOURCES
        if "docs/spec/" in text(path)
        for found in pattern.findall(re.sub(r"\s*\n\s*(?:# )?", " ", text(path)))
    }


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
        for one in (_FILE.findall(text) if ".md" in text else ())
        if not any((top / one).is_file() for top in (ROOT, ROOT / "docs"))
    ]
    return missing + [found.group() for found in _OUTSIDE.finditer(text)]


def test_cited_sections_are_there() -> None:
    written = {page: _sections(page) for page in PAGES}
    assert "hpc-daemon" in written
    refuse(one for one in sorted(_found(_CITED)) if one[2].strip() not in written.get(one[1], ()))


def test_lists_of_sections_name_sections() -> None:
    cited = _found(_LIST)
    assert cited
    refuse(
        one
        for one in sorted(cited)
        if one[1] not in PAGES or not _is_list(one[2], _sections(one[1]))
    )


def test_cited_pages_are_there() -> None:
    cited = {(shown(path), page) for path in SOURCES for page in _PAGE.findall(text(path))}
    refuse(one for one in sorted(cited) if one[1] not in PAGES)


def test_no_module_cites_a_document_that_is_not_here() -> None:
    cited = {
        (shown(path), fault)
        for path in SOURCES
        # The whole text first: few files have a fault in it, and to cut one into tokens is slow.
        if _faults(" ".join(text(path).split()))
        for words in _prose(text(path))
        for fault in _faults(words)
    }
    refuse(sorted(cited))


def test_no_page_cites_a_document_that_is_not_here() -> None:
    cited = [(shown(path), _OUTSIDE_DOCUMENTS.findall(text(path))) for path in DOCUMENTS]
    refuse(one for one in cited if one[1])


def test_the_rule_sees_citations_of_other_documents() -> None:
    cited = (
        "Reads of records (api-contract 4.7).", "Tokens (5.2).", "As in contract 3.2",
        "seed 003 says so", "the locking scenarios of the seed, with", "facts of lab.md",
        "see hpc-daemon-contract", "E.2 the chaos", "decision 12",
        "(architecture, `core.filetree`)", "(docs/nothing.md)",
    )  # fmt: skip
    refuse(one for one in cited if not _faults(one))


def test_standards_and_pages_may_be_cited() -> None:
    cited = ("RFC 9112, 6.3", "(RFC 4918, 7.3)", "docs/sharing.md", "Python (3.11 or later)")
    refuse(one for one in cited if _faults(one))
