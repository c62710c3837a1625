"""`lading runs get`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.cli.runs import fetching
from lading.core.runs.step_groups import read_step
from tests.cli.runs.runs_site import submit
from tests.cli.site import Play, Site


def test_outputs_on_disk(site: Site, image: str, here: Path) -> None:
    submit(site, image, "fetched", "a", play=Play(files={"x": b"1"}))
    submit(site, image, "fetched", "b", play=Play(files={"y": b"2"}))
    site.lading("runs", "get", "fetched", "results")
    assert (here / "results/b/y").read_bytes() == b"2"
    assert (here / "results/a/x").read_bytes() == b"1"
    site.lading("runs", "get", "fetched", "results", code=1)
    site.lading("runs", "get", "fetched", "one", "--step", "a")
    assert [path.name for path in (here / "one").iterdir()] == ["a"]
    assert (
        "its steps: a, b"
        in site.lading("runs", "get", "fetched", "n", "--step", "c", code=1).stderr
    )


def step(uuid: str, name: str, group: str, **more: Any) -> Any:
    usual = {"state": "done", "is_reused": False, "created_at": "1", "output": uuid}
    return read_step(
        {"uuid": uuid, "name": name, "properties": {"lading_step": group}, **usual, **more}
    )


def test_the_last_steps_are_chosen_and_each_has_a_directory() -> None:
    steps = [
        step("a1", "a.1", "a"),
        step("a2", "a.2", "a"),
        step("b", "b", "b", depends_on=["a1", "a2"]),
        step("b2", "b", "b", depends_on=["a1"]),
        step("c", "..", "..", state="failed"),
    ]
    assert [each.uuid for each in fetching.choose(steps, (), is_all=False)] == ["b2"]
    every = fetching.choose(steps, (), is_all=True)
    assert fetching.places(every, Path("d")) == [Path("d/a/a.1"), Path("d/a/a.2"), Path("d/b")]


@pytest.mark.parametrize(("name", "part"), [("a/b", "a_b"), ("..", "_.."), ("\n", "_"), ("", "_")])
def test_names_are_parts_of_paths(name: str, part: str) -> None:
    (place,) = fetching.places([step("a", name, name or "x")], Path())
    assert place == Path(part if name else "x")
