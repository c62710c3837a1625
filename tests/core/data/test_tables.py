"""Tables as spreadsheets write them."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.tables import read_table
from lading.core.errors import Invalid

ROWS = [{"sample": "a", "file": "x y.fq"}, {"sample": "é", "file": "z"}]
# csv reads no NUL, and UTF-8 has no halves of surrogate pairs.
_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = "sample,file\na,x y.fq\né,z\n"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        TEXT.replace(",", "\t").encode(),
        TEXT.replace(",", ";").encode("utf-8-sig"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
        TEXT.replace("\n", "\n\n").encode(),
        ' sample ,"file"\n"a",x y.fq\né,z'.encode(),
    ],
)
def test_the_rows_are_the_same_however_a_table_is_saved(content: bytes) -> None:
    table = read_table(content)
    assert table.columns == ["sample", "file"]
    assert [row.values for row in table.rows] == ROWS


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "must have the names of the columns"),
        (b"\na,b\n", "must have the names of the columns"),
        (b"a,\n1,2\n", "must have the names of the columns"),
        (b"a,b,a\n1,2,3\n", "names the column a twice"),
        (b"a,b\n1,2\n\n3\n", "line 4 has not 2 columns, but 1"),
        (b"a,b\n1,2,3\n", "line 2 has not 2 columns, but 3"),
        ("a,b\n1,é\n".encode("latin-1"), "line 2 is not UTF-8 text; save the table as UTF-8"),
        (b'a,b\n1,"2\n', "line 2: unexpected end of data"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(content: bytes, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        read_table(content)


def test_the_line_of_a_row_is_that_of_its_end() -> None:
    table = read_table(b'a,b\n"1\n1",2\n3,4\n')
    assert [(row.line, row.values["a"]) for row in table.rows] == [(3, "1\n1"), (4, "3")]


@given(
    st.lists(
        st.tuples(st.text(_LETTERS, min_size=1, max_size=9), st.text(_LETTERS, max_size=9)),
        max_size=5,
    ),
    st.sampled_from([",", "\t", ";"]),
)
def test_every_table_that_is_written_is_read(rows: list[tuple[str, str]], separator: str) -> None:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerows([("first", "second"), *rows])
    table = read_table(file.getvalue().encode())
    assert [tuple(row.values.values()) for row in table.rows] == rows
