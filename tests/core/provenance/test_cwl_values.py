"""Values of CWL with files of a bag."""

from __future__ import annotations

from hashlib import sha1

from lading.core.provenance.cwl_values import (
    StoredFile,
    data_path,
    literals,
    located,
    locations,
    placed,
)

A = StoredFile("aa" * 20, 3)
B = StoredFile("bb" * 20, 4)


def test_contents_are_in_directories_by_their_first_digits() -> None:
    assert data_path(A.sha1) == f"data/aa/{A.sha1}"


def test_relative_locations_are_made_whole() -> None:
    value = {
        "out": [{"class": "File", "location": "x/y"}],
        "kept": {"class": "Directory", "location": "keep:z"},
        "none": {"class": "File"},
        "other": {"location": "x"},
    }
    assert located(value, "keep:h") == {
        "out": [{"class": "File", "location": "keep:h/x/y"}],
        "kept": {"class": "Directory", "location": "keep:z"},
        "none": {"class": "File"},
        "other": {"location": "x"},
    }


def test_files_are_found_wherever_they_are() -> None:
    second = {"class": "File", "location": "keep:b"}
    value = [{"r": {"class": "File", "location": "keep:a", "secondaryFiles": [second]}}, 1]
    assert sorted(locations(value)) == ["keep:a", "keep:b"]
    assert list(locations({"class": "File", "location": "https://host/x"})) == []


def test_a_file_gets_its_place_and_checksum() -> None:
    second = {"class": "File", "location": "keep:b", "dirname": "/keep"}
    file = {
        "class": "File",
        "location": "keep:a",
        "path": "/keep/a",
        "basename": "a",
        "secondaryFiles": [second],
    }
    assert placed({"x": [file, 1]}, {"keep:a": A, "keep:b": B}) == {
        "x": [
            {
                "class": "File",
                "location": f"../data/aa/{A.sha1}",
                "basename": "a",
                "checksum": f"sha1${A.sha1}",
                "size": 3,
                "secondaryFiles": [
                    {
                        "class": "File",
                        "location": f"../data/bb/{B.sha1}",
                        "checksum": f"sha1${B.sha1}",
                        "size": 4,
                    }
                ],
            },
            1,
        ]
    }


def test_a_directory_is_listed_whole() -> None:
    folder = {"class": "Directory", "location": "keep:d", "basename": "d"}
    made = placed(folder, {"keep:d": {"a": A, "sub/b": B, "sub/deep/a": A}})
    assert "location" not in made
    names = [(one["class"], one["basename"]) for one in made["listing"]]
    assert names == [("File", "a"), ("Directory", "sub")]
    sub = made["listing"][1]["listing"]
    assert [one["basename"] for one in sub] == ["b", "deep"]


def test_what_is_not_stored_keeps_its_location() -> None:
    file = {"class": "File", "location": "https://host/x", "contents": "seen"}
    assert placed(file, {}) == {"class": "File", "location": "https://host/x"}
    assert list(literals(file)) == []
    folder = {"class": "Directory", "listing": [{"class": "File", "location": "keep:a"}]}
    assert placed(folder, {"keep:a": A})["listing"][0]["size"] == 3
    assert placed({"class": "Directory"}, {}) == {"class": "Directory"}


def test_files_that_are_in_the_value_itself() -> None:
    file = {"class": "File", "location": "_:1", "contents": "text", "basename": "t"}
    assert list(literals([file])) == [b"text"]
    made = placed(file, {})
    assert made["checksum"] == f"sha1${sha1(b'text').hexdigest()}"
    assert "contents" not in made
