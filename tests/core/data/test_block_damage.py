from __future__ import annotations

from lading.core.data.packing import files_with

ONE, TWO = "acbd18db4cc2f85cedef654fccc4a4d8", "37b51d194a7513e45b56f6524f2d51f2"
TEXT = (
    f". {ONE}+3 {TWO}+3+Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@00000000 "
    "0:2:a 2:3:b 5:1:c 1:0:empty\n"
    f"./dir {TWO}+3 0:3:d\\040e\n"
)


def test_the_files_that_have_bytes_of_a_block() -> None:
    assert files_with(TEXT, ONE) == ["a", "b"]
    assert files_with(TEXT, TWO) == ["b", "c", "dir/d e"]
    assert files_with("", ONE) == []
