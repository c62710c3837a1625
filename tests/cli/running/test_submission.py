"""Container requests from options; what reaches the server is tested in test_run.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.cli.references import FileReference
from lading.cli.running.submission import Input, RequestSpec, parse_input, request_body
from lading.core.errors import Invalid

_PDH = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"


def test_a_path_that_is_there_wins_over_a_name(here: Path) -> None:
    assert parse_input(f"/in={_PDH}/a") == Input(target="/in", stored=FileReference(_PDH, "a"))
    (here / _PDH).write_text("")
    assert parse_input(f"/in={_PDH}") == Input(target="/in", path=Path(_PDH))


@pytest.mark.parametrize("text", ["", "/in", "/in=", "=x", "in=.", "/=.", "/a/../b=.", "stdout=."])
def test_what_is_no_input(text: str) -> None:
    with pytest.raises(Invalid):
        parse_input(text)


def test_the_least_that_is_asked_for() -> None:
    assert request_body(RequestSpec(command=("true",)), image="i", mounts={}) == {
        "state": "Committed",
        "name": None,
        "command": ["true"],
        "container_image": "i",
        "cwd": "/out",
        "environment": {},
        "mounts": {"/out": {"kind": "tmp"}},
        "output_path": "/out",
        "output_glob": [],
        "runtime_constraints": {"vcpus": 1, "ram": 256 << 20},
        "priority": 500,
        "use_existing": True,
    }


def test_resources_are_matched_only_if_asked() -> None:
    plain, asked = (
        request_body(RequestSpec(command=("true",), match_resources=one), image="x", mounts={})
        for one in (False, True)
    )
    assert ("match_resources" in plain, asked["match_resources"]) == (False, True)
