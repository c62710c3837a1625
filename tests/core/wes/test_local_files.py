"""Files of the sender's machine in the parameters of a run."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.wes.local_files import below_base, decoded, find_base, local_path

PATHS = {"main.cwl", "data", "data/a b.fq", "x", "wf", "wf/x"}


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:///home/a%20b/x", "/home/a b/x"),
        ("file://localhost/x/", "/x"),
        ("FILE:/x", "/x"),
        ("/home/x", "/home/x"),
        ("file://other/x", ""),
        ("data/x", ""),
        ("keep:0/x", ""),
    ],
)
def test_local_paths(location: str, path: str) -> None:
    assert local_path(location) == path


def test_paths_are_decoded() -> None:
    assert decoded("a%20b%zz%FF") == "a b%zz\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("locations", "base", "fault"),
    [
        (["data/x", "keep:0/x"], "", ""),
        (["file:///home/ann/data/a%20b.fq", "/home/ann/data"], "/home/ann/", ""),
        (["file:///other/y"], "", "no workflow_attachment"),
        (["file:///a/data/a b.fq", "file:///b/main.cwl"], "", "the others lie below /a/"),
        # From /h/ it is wf/x, from /h/wf/ it is x.
        (["file:///h/wf/x"], "", "from /h/ or /h/wf/"),
        (["file:///h/wf/x", "file:///h/wf/data"], "/h/wf/", ""),
    ],
)
def test_the_directory_of_the_sender(locations: list[str], base: str, fault: str) -> None:
    found, told = find_base(locations, PATHS)
    assert found == base
    assert fault in told
    assert bool(fault) == bool(told)


def test_parameters_name_attachments() -> None:
    sent: Any = {
        "reads": {"class": "File", "path": "file:///h/data/a%20b.fq", "size": 1},
        "more": [{"class": "Directory", "location": "/h/data/"}, {"location": "/h/x"}, 3],
        "odd": {"class": "File", "location": "file:///h/50%25"},
        "other": {"class": "File", "location": "keep:0/x"},
        "empty": {"class": "File"},
    }
    made = below_base(sent, "/h/")
    assert made["reads"] == {"class": "File", "location": "data/a b.fq", "size": 1}
    assert made["more"] == [{"class": "Directory", "location": "data"}, {"location": "/h/x"}, 3]
    assert made["odd"] == {"class": "File", "location": "50%25"}
    assert (made["other"], made["empty"]) == (sent["other"], sent["empty"])
