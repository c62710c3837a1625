"""Differences of small files."""

from __future__ import annotations

from lading.client.provenance.text_differences import LARGEST, content_difference


def test_lines_of_a_text() -> None:
    found = content_difference("a.txt", b"one\ntwo\n", b"one\n\x1bthree\n")
    assert found == ["@@ -1,2 +1,2 @@", " one", "-two", "+?three"]


def test_cells_of_a_table() -> None:
    before, after = b"name,n\na,1\nb,2\n", b"name,n\na,1\nb,3\n"
    assert content_difference("t.csv", before, after) == ["row 2 (b), n: 2 -> 3"]
    tabs = [one.replace(b",", b"\t") for one in (before, after)]
    assert content_difference("d/t.tsv", *tabs) == ["row 2 (b), n: 2 -> 3"]
    wide = content_difference("t.csv", b"n\na,1\n", b"n\na,2\n")
    assert wide == ["row 1 (a), 2: 1 -> 2"]


def test_tables_of_another_form_are_texts() -> None:
    for after in (b"n,m\na,1\n", b"n\nb\n", b"n\na\nc\n"):
        assert content_difference("t.csv", b"n\na\n", after)[0].startswith("@@")
    assert content_difference("t.csv", b"", b"") == []


def test_much_is_cut() -> None:
    before = b"".join(b"%d\n" % number for number in range(50))
    found = content_difference("x", before, before.replace(b"\n", b"!\n"), most=5)
    assert len(found) == 6
    assert found[-1] == "... 96 more"
    (_, _, line) = content_difference("x", b"", b"y" * 500 + b"\n" + b"", most=9) + ["", ""][:1]
    assert len(line) <= 161


def test_what_is_no_text_or_too_large() -> None:
    for data in (b"\0", b"\xff", b"x" * (LARGEST + 1), b"\n" * 2001):
        assert content_difference("x", b"a", data) == []
        assert content_difference("x", data, b"a") == []
