"""Bags, and documents of PROV in pieces."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from lading.client.provenance.bag_writing import BagWriter, ProvSpool
from lading.core.provenance.cwl_values import data_path
from lading.core.provenance.prov_records import element, relation


def _write(place: Path, *, packed: bool) -> list[tuple[str, bool]]:
    found = []
    with BagWriter(place, packed=packed) as writer:
        for content in (b"one", b"two", b"one"):
            with writer.data() as file:
                file.add(content)
                made, is_new = file.finish()
            found.append((made.sha1, is_new))
        writer.write("a\n%", [b"x"])
        writer.write_json("metadata/x.json", {"a": 1})
        writer.finish([("External-Description", "a\nb")])
        writer.add_signature("signed\n")
    return found


def test_each_content_is_there_once(tmp_path: Path) -> None:
    bag = tmp_path / "bag"
    contents = _write(bag, packed=False)
    assert [is_new for _, is_new in contents] == [True, True, False]
    for digest, _ in contents:
        assert (bag / data_path(digest)).is_file()
    for name in ("manifest-sha1.txt", "manifest-sha512.txt"):
        program = name.removeprefix("manifest-").removesuffix(".txt") + "sum"
        subprocess.run([program, "--quiet", "-c", name], cwd=bag, check=True, timeout=20)
    tags = (bag / "tagmanifest-sha512.txt").read_text()
    assert "a%0A%25\n" in tags
    assert "bag-info.txt\n" in tags
    assert (bag / "bag-info.txt").read_text() == "External-Description: a b\nPayload-Oxum: 6.2\n"
    assert (bag / "tagmanifest-sha512.txt.sig").read_text() == "signed\n"
    assert list(tmp_path.iterdir()) == [bag]


def test_an_archive_has_the_same_files(tmp_path: Path) -> None:
    _write(tmp_path / "bag", packed=False)
    _write(tmp_path / "bag.zip", packed=True)
    with zipfile.ZipFile(tmp_path / "bag.zip") as packed:
        names = sorted(packed.namelist())
        assert packed.read("bagit.txt").startswith(b"BagIt-Version: 1.0")
    files = (path for path in (tmp_path / "bag").rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(tmp_path / "bag")) for path in files)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bag", "bag.zip"]


def test_a_file_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag", packed=False) as writer, writer.data() as file:
        file.add(b"half")
    assert [path.name for path in tmp_path.rglob("*")] == ["bag"]


def test_documents_of_prov() -> None:
    with ProvSpool() as spool:
        spool.add([element("entity", "id:1", []), element("entity", "id:2", [])])
        spool.add([relation("specializationOf", "id:1", "id:2")])
        names = {"id": "urn:uuid:"}
        text = b"".join(spool.prov_n(names)).decode()
        document = json.loads(b"".join(spool.prov_json(names)))
    assert text.splitlines() == [
        "document",
        "  prefix id <urn:uuid:>",
        "  entity(id:1)",
        "  entity(id:2)",
        "  specializationOf(id:1, id:2)",
        "endDocument",
    ]
    assert document["entity"] == {"id:1": {}, "id:2": {}}
    (relation_key,) = document["specializationOf"]
    assert relation_key.startswith("_:")
    assert "agent" not in document
