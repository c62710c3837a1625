"""Parts of programs as runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lading
from lading.client.run_records import program
from tests.cli.site import Site


def test_all_that_a_block_submits_is_one_attempt(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    for number in (1, 2):
        with connecting() as site, lading.run("block", params={"k": number}, source={}) as block:
            assert (block.uuid, block.attempt) == (None, None)
            runs = [
                site.run(["align", str(item)], image=image, name=f"align.{item}")
                for item in range(2)
            ]
            uuids = [each.uuid for each in runs]
            runs.append(site.run(["plot"], image=image, step="figure"))
            uuids.append(runs[-1].uuid)
            assert block.attempt == number
            path = f"groups/{block.uuid}/run_steps"
            items = stage.call(stage.world.ok("GET", path))["items"]
            assert [item["uuid"] for item in items] == uuids
            steps = [item["properties"]["lading_step"] for item in items]
            assert steps == ["align", "align", "figure"]
            record = stage.call(stage.world.ok("GET", f"groups/{block.uuid}/run"))
            assert record["params"] == {"k": number}
            outside = site.run(["plain"], image=image, project=None)
            assert outside.uuid
    with connecting() as site:
        alone = site.run(["alone"], image=image)
        record = stage.call(stage.world.ok("GET", f"container_requests/{alone.uuid}"))
        assert record["properties"] == {}


def test_an_error_of_the_program_is_that_of_the_run(
    stage: Site, image: str, connecting: Callable[[], lading.Site]
) -> None:
    block = lading.run("broken", source={})
    with connecting() as site, pytest.raises(ValueError, match="no reads"), block:
        site.run(["a"], image=image).cancel()
        raise ValueError("no reads")
    record = stage.call(stage.world.ok("GET", f"groups/{block.uuid}/run"))
    assert (record["state"], record["note"]) == ("failed", "ValueError: no reads")


def test_the_variable_names_the_run_of_a_program(
    stage: Site, image: str, connecting: Callable[[], lading.Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADING_RUN", "by-variable")
    monkeypatch.setenv("LADING_SESSION", "s")
    with connecting() as site:
        for number in range(2):
            assert site.run(["step", str(number)], image=image).uuid
    block = program.active_run()
    assert block is not None
    record = stage.call(stage.world.ok("GET", f"groups/{block.uuid}/run"))
    assert (record["name"], record["attempt"], record["counts"]["total"]) == ("by-variable", 1, 2)
