"""Crates whose contents do not fit together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lading.client.provenance.crate_import import (
    crate_name,
    import_crate,
    read_contents,
)
from lading.client.provenance.crate_reading import CrateReader
from lading.client.provenance.crate_writing import CrateWriter
from lading.core.data import manifest
from lading.core.errors import Conflict, Corrupt, LadingError, TooLarge
from tests.cli.site import Site
from tests.client.provenance.test_crate_export import export, run

REQUEST, CONTAINER = "zzzzz-xvhdp-000000000000000", "zzzzz-dz642-000000000000000"


def _crate(place: Path, files: dict[str, bytes]) -> Path:
    with CrateWriter(place, packed=False) as writer:
        for path, data in files.items():
            writer.write(path, [data])
        writer.finish()
    return place


def _records(**container: Any) -> dict[str, bytes]:
    request = {"uuid": REQUEST, "container_uuid": CONTAINER, "name": "x"}
    held = {"uuid": CONTAINER, "mounts": {}, "output": None, "container_image": None, **container}
    named = {REQUEST: request, CONTAINER: held}
    return {f"records/{uuid}.json": json.dumps(one).encode() for uuid, one in named.items()}


def _text(text: str) -> dict[str, bytes]:
    return {f"manifests/{manifest.portable_data_hash(text)}.txt": text.encode()}


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (_records(mounts=None), "has no mounts"),
        (_records(mounts={"/x": 5}), "has no mounts"),
        (_records(output="x"), "output is no hash"),
        (_text(". hello\n") | {"data/x/y": b""}, "data/x: has no manifest"),
        ({"ro-crate-metadata.json": b"[]"}, "no metadata of a crate"),
    ],
)
def test_records_and_manifests_that_are_none(
    tmp_path: Path, files: dict[str, bytes], fault: str
) -> None:
    with CrateReader(_crate(tmp_path / "c", files)) as reader:
        reader.check()

        def read() -> None:
            read_contents(reader)
            crate_name(reader)

        with pytest.raises(Corrupt, match=fault):
            read()


def test_a_manifest_that_cannot_be_parsed(tmp_path: Path) -> None:
    text = ". hello\n"
    pdh = manifest.portable_data_hash(text)
    with CrateReader(_crate(tmp_path / "c", {**_text(text), f"data/{pdh}/x": b""})) as reader:
        reader.check()
        with pytest.raises(Corrupt, match=f"manifests/{pdh[:32]}"):
            read_contents(reader)


def _refused(stage: Site, place: Path, error: type[LadingError], fault: str) -> None:
    async def bring() -> None:
        async with stage.connect() as session:
            with CrateReader(place) as reader:
                reader.check()
                await import_crate(session.api, session.blocks, reader, name="n")

    with pytest.raises(error, match=fault):
        stage.call(bring())


def test_more_blocks_than_the_files_have_are_not_stored(stage: Site, tmp_path: Path) -> None:
    # Windows of one small file, each a block of its own.
    names = [f"{number:032x}+1000" for number in range(40)]
    text = "".join(f"./{number} {one} 0:1000:x\n" for number, one in enumerate(names))
    pdh = manifest.portable_data_hash(text)
    files = {
        **_text(text), **_records(output=pdh), **{f"blocks/{one}": b"" for one in names},
    }  # fmt: skip
    _refused(stage, _crate(tmp_path / "c", files), TooLarge, "names 40000 bytes of blocks")
    large = f". {'0' * 32}+99999999 0:1:x\n"
    pdh = manifest.portable_data_hash(large)
    files = {
        **_text(large), **_records(output=pdh), f"blocks/{'0' * 32}+99999999": bytes(30 << 20),
    }  # fmt: skip
    _refused(stage, _crate(tmp_path / "d", files), TooLarge, "larger than a block can be")


def test_a_content_without_its_manifest(stage: Site, tmp_path: Path) -> None:
    pdh = "0" * 32 + "+5"
    _refused(stage, _crate(tmp_path / "c", _records(output=pdh)), Conflict, f"manifests/{pdh[:32]}")


def test_what_is_there_already_is_left_alone(stage: Site, tmp_path: Path) -> None:
    place = export(stage, [run(stage)], tmp_path / "crate")

    async def bring() -> tuple[str, ...]:
        async with stage.connect() as session:
            with CrateReader(place) as reader:
                reader.check()
                made = await import_crate(session.api, session.blocks, reader, name="n")
                return made.new

    assert stage.call(bring()) == ()


def test_more_records_than_can_be_parsed(tmp_path: Path) -> None:
    files = {f"records/zzzzz-xvhdp-{number:015}.json": b" " * (33 << 20) for number in range(2)} | {
        "ro-crate-metadata.json": b" " * (65 << 20)
    }
    with CrateReader(_crate(tmp_path / "c", files)) as reader:
        reader.check()
        with pytest.raises(TooLarge, match="records/: has"):
            read_contents(reader)
        assert crate_name(reader) == "of many steps"
