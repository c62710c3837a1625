from __future__ import annotations

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import filetree, locator, manifest
from lading.core.data.manifest import FileToken, Manifest, ManifestStream
from lading.core.errors import Malformed
from lading.core.ids import EMPTY_PDH

A = "0cc175b9c0f1b6a831c399e269772661+1"
FOO = "acbd18db4cc2f85cedef654fccc4a4d8+3"
SIGNED = f"{FOO}+A{'0' * 40}@7fffffff"

names = (
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
    )
    .filter(lambda name: name not in (".", ".."))
)  # fmt: skip


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    streams = []
    for directory in draw(st.lists(names, unique=True, max_size=3)):
        blocks = draw(
            st.lists(st.sampled_from([A, FOO, SIGNED, f"{A}+K@zzzzz"]), min_size=1, max_size=4)
        )
        size = sum(locator.parse(block).size or 0 for block in blocks)
        files = []
        for name in draw(st.lists(names, min_size=1, max_size=4)):
            start = draw(st.integers(0, size))
            files.append(FileToken(start, draw(st.integers(0, size - start)), name))
        streams.append(ManifestStream(f"./{directory}", tuple(blocks), tuple(files)))
    return Manifest(tuple(streams))


@given(manifests())
def test_parse_reads_what_render_writes(value: Manifest) -> None:
    assert manifest.parse(manifest.render(value)) == value


@given(st.text(max_size=300))
def test_parse_gives_a_manifest_or_says_malformed(text: str) -> None:
    with suppress(Malformed):
        manifest.parse(manifest.render(manifest.parse(text)))


def test_parse() -> None:
    text = f"./a\\040b {FOO} {A}+K@zzzzz 0:2:x:y 2:2:sub/z\\134 0:0:x:y\n"
    files = (FileToken(0, 2, "x:y"), FileToken(2, 2, "sub/z\\"), FileToken(0, 0, "x:y"))
    assert manifest.parse(text) == Manifest(
        (ManifestStream("./a b", (FOO, f"{A}+K@zzzzz"), files),)
    )


def test_the_empty_manifest_is_one() -> None:
    assert manifest.parse("") == Manifest()
    assert manifest.portable_data_hash("") == EMPTY_PDH
    assert manifest.counts("") == (0, 0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f". {FOO} 0:3:foo", "no line end"),
        (f". {FOO}\n", "has no file"),
        (". 0:0:foo\n", "has no block locator"),
        (".\n", "has no block locator"),
        ("\n", "no stream name"),
        (f"foo {FOO} 0:3:foo\n", "no stream name"),
        (f"./ {FOO} 0:3:foo\n", "no stream name"),
        (f"./.. {FOO} 0:3:foo\n", "no stream name"),
        (f"./a/../b {FOO} 0:3:foo\n", "no stream name"),
        (f"./a/ {FOO} 0:3:foo\n", "no stream name"),
        (f"./a//b {FOO} 0:3:foo\n", "no stream name"),
        (f"./\\056\\056 {FOO} 0:3:foo\n", "no stream name"),
        (f"./\\000 {FOO} 0:3:foo\n", "no stream name"),
        (f"/ {FOO} 0:3:foo\n", "no stream name"),
        (f". {FOO} 0:3:../foo\n", "no names of files"),
        (f". {FOO} 0:3:/foo\n", "no names of files"),
        (f". {FOO} 0:3:foo/\n", "no names of files"),
        (f". {FOO} 0:3:a/./b\n", "no names of files"),
        (f". {FOO} 0:3:\\056\\056\\057etc\n", "no names of files"),
        (f". {FOO} 0:3:\\056\n", "no names of files"),
        (f". {FOO} 0:3:a\\000b\n", "zero byte"),
        (f". {FOO} 1:3:foo\n", "reaches beyond the 3 bytes"),
        (f". {FOO} 0:3:\n", "neither a block locator nor"),
        (f". {FOO}  0:3:foo\n", "neither a block locator nor"),
        (f". {FOO[:32]}+03 0:3:foo\n", "neither a block locator nor"),
        (f". {FOO} 0:3:foo {A}\n", "neither a block locator nor"),
        (f". {FOO} -1:3:foo\n", "neither a block locator nor"),
        (f". {FOO[:32]} 0:0:foo\n", "neither a block locator nor"),
        (f". {FOO} 0:3:a\\9\n", "three octal digits"),
        (f". {FOO} 0:3:a\\377\n", "not UTF-8"),
        (f". {FOO} 0:3:a\tb\n", "must be written \\011"),
        (f". {FOO} 0:3:a\ud800\n", "not UTF-8"),
        (f". {FOO} 0:3:foo 0:1:foo/bar\n", "both a file and a directory"),
        (f". {FOO} 0:3:foo\n./foo/bar {FOO} 0:3:x\n", "both a file and a directory"),
        (f". {FOO} 0:3:{'n' * 256}\n", "at most 255 bytes"),
        (f". {FOO} 0:3:{'€' * 86}\n", "at most 255 bytes"),
        (f". {FOO} 0:3:a/{'n' * 256}/b\n", "at most 255 bytes"),
        (f"./{'n' * 256} {FOO} 0:3:a\n", "at most 255 bytes"),
        (f". {FOO} 0:3:{'d/' * 10_000}f\n", "at most 256 names"),
        (f".{'/d' * 10_000} {FOO} 0:3:f\n", "at most 256 names"),
        (f".{'/d' * 200} {FOO} 0:3:{'e/' * 56}f\n", "at most 256 names"),
    ],
)
def test_faults_are_named(text: str, fault: str) -> None:
    with pytest.raises(Malformed) as caught:
        manifest.parse(text)
    assert fault in caught.value.message
    with pytest.raises(Malformed):
        manifest.counts(text)


def test_the_line_is_named_and_long_words_are_cut() -> None:
    with pytest.raises(Malformed, match=r"^manifest line 2: 'x{80}\.\.\.'"):
        manifest.parse(f". {FOO} 0:3:foo\n. {FOO} {'x' * 500}\n")


def test_raw_unicode_and_delete_are_names() -> None:
    text = f". {FOO} 0:3:naïve\u00a0\u3000\x7f\u2028\n"
    assert manifest.parse(text).streams[0].files[0].name == "naïve\u00a0\u3000\x7f\u2028"


def test_portable_data_hash_ignores_hints_alone() -> None:
    bare = f". {FOO} {A} 0:3:foo\n"
    digest = hashlib.md5(bare.encode(), usedforsecurity=False).hexdigest()
    hinted = f". {SIGNED}+K@zzzzz {A}+Rabcde-{'0' * 40}@5 0:3:foo\n"
    assert manifest.portable_data_hash(hinted) == f"{digest}+{len(bare)}"


def test_only_signatures_are_stripped() -> None:
    text = f". {FOO}+K@zzzzz+A{'0' * 40}@7fffffff+Rabcde-1 {SIGNED} 0:3:f+A{'0' * 40}@7fffffff\n"
    assert (
        manifest.strip_signatures(text)
        == f". {FOO}+K@zzzzz+Rabcde-1 {FOO} 0:3:f+A{'0' * 40}@7fffffff\n"
    )


def test_sign_asks_for_every_locator() -> None:
    assert (
        manifest.sign(f". {FOO} {A}+K@z 0:3:foo\n", lambda text: f"<{text}>")
        == f". <{FOO}> <{A}+K@z> 0:3:foo\n"
    )


def test_locators_in_order_with_repeats() -> None:
    assert manifest.locators(f". {SIGNED} {A} 0:3:foo\n./b {A} 0:1:a\n") == [SIGNED, A, A]


@given(manifests())
def test_signing_and_stripping_give_the_same_hash(value: Manifest) -> None:
    text = manifest.render(value)
    signed = manifest.sign(
        text, lambda one: locator.signed(one, token="t", expiry=1, ttl=2, key="k")
    )
    assert manifest.strip_signatures(signed) == manifest.strip_signatures(text)
    assert manifest.portable_data_hash(signed) == manifest.portable_data_hash(text)


def test_counts_joins_the_parts_of_a_file_and_skips_empty_directories() -> None:
    text = f". {FOO} 0:1:a 2:1:a 0:3:d/b\n./e d41d8cd98f00b204e9800998ecf8427e+0 0:0:\\056\n"
    assert manifest.counts(text) == (2, 5)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_unescape_undoes_escape(name: str) -> None:
    escaped = manifest.escape(name)
    assert manifest.unescape(escaped) == name
    assert not set(escaped) & set(" :\n\t\0")


def test_escape_is_as_other_clients_write_it() -> None:
    assert manifest.escape("a b:c\\d\n") == "a\\040b\\072c\\134d\\012"
    assert manifest.unescape("na\\303\\257ve") == "naïve"


def test_the_longest_and_deepest_names() -> None:
    text = f".{'/d' * 200} {FOO} 0:3:{'e/' * 55}f 0:3:{'n' * 255} 0:3:{'€' * 85}\n"
    assert manifest.render(manifest.parse(text)) == text
    assert manifest.counts(text) == (3, 9)


def test_blocks_whose_normal_form_would_have_positions_beyond_every_number_are_refused() -> None:
    half = f"{'a' * 32}+{'5' + '0' * 17}"
    taken = f". {half} 0:2:a\n. {half[:33]}{'4' + '9' * 17} 1:2:b\n"
    normal = filetree.to_manifest(filetree.from_manifest(taken))
    assert filetree.to_manifest(filetree.from_manifest(normal)) == normal
    with pytest.raises(Malformed, match=r"line 2: the blocks up to here have 10{18} bytes in all"):
        manifest.counts(f". {half} 0:2:a\n. {half} 1:2:b\n")


def test_a_total_beyond_every_number_is_refused() -> None:
    block = f"{'a' * 32}+{'9' * 18}"
    text = f". {block} {' '.join(f'0:{chr(57) * 18}:f{number}' for number in range(5))}\n"
    assert len(manifest.parse(text).streams) == 1
    with pytest.raises(Malformed, match="in all; a collection has at most"):
        manifest.counts(text)


def test_pieces_grow_with_the_text_not_with_its_square() -> None:
    few, fifty = " ".join([A] * 50), " ".join(f"0:50:f{number}" for number in range(50))
    assert manifest.counts(f". {few} {fifty}\n") == (50, 2500)
    # More than 2 ** 20 pairs of block and file.
    blocks, files = " ".join([A] * 1025), " ".join(f"0:1025:f{number}" for number in range(1025))
    some = " ".join(f"{number}:1:f{number}" for number in range(1025)) + " 0:0:empty"
    assert manifest.counts(f". {blocks} {some}\n") == (1026, 1025)
    with pytest.raises(Malformed, match="line 1: too many files reach over too many blocks"):
        manifest.parse(f". {blocks} {files}\n")
