"""Pipelines that are looked at before they are submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.provenance.previewing import StepPreview, preview_pipeline, summary
from lading.core.errors import Invalid
from lading.testing.asgi import AsgiTransport
from lading.testing.world import World, world

OUT: Record = {"/out": {"kind": "tmp", "capacity": 1000}}


async def _item(here: World, name: str, *needs: int, **more: Any) -> Record:
    reads = {
        f"/in{number}": {"kind": "output", "container_request": f"#{number}"} for number in needs
    }
    return await here.spec(name, name=name, mounts={**OUT, **reads}, **more)


async def _run_all(here: World, items: list[Record]) -> None:
    outputs: list[str] = []
    for one in items:
        mounts = {
            target: {"kind": "collection", "portable_data_hash": outputs[int(target[3:])]}
            if mount["kind"] == "output"
            else mount
            for target, mount in one["mounts"].items()
        }
        made = await here.ok("POST", "container_requests", {**one, "mounts": mounts})
        output = await here.collection({"x": one["name"].encode()})
        outputs.append(output["portable_data_hash"])
        await here.run(made["container_uuid"], output=outputs[-1], cost=0.5)


async def _diamond(here: World, **first: Any) -> list[Record]:
    return [
        await _item(here, "index"),
        await _item(here, "clean", **first),
        await _item(here, "place", 0, 1),
        await _item(here, "report", 2),
    ]


async def test_what_runs_because_a_variable_changed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        api = ApiClient(AsgiTransport(here.app), here.admin)
        await _run_all(here, await _diamond(here, environment={"QUALITY": "20"}))
        same = await preview_pipeline(api, await _diamond(here, environment={"QUALITY": "20"}))
        assert summary(same) == "4 steps: 4 reused"
        assert all(one.seconds == 0 for one in same)
        found = await preview_pipeline(api, await _diamond(here, environment={"QUALITY": "30"}))
        assert summary(found) == "4 steps: 1 reused, 3 to run because QUALITY changed"
        assert [one.reason for one in found] == [
            "", "QUALITY changed", "clean runs", "place runs",
        ]  # fmt: skip
        assert all((one.seconds or 0) > 0 and one.cost == 0.5 for one in found[1:])
        assert (await here.ok("GET", "container_requests"))["items_available"] == 4


async def test_other_reasons(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        api = ApiClient(AsgiTransport(here.app), here.admin)
        (new,) = await preview_pipeline(api, [await _item(here, "new", depends_on=[])])
        assert (new.reason, new.seconds, new.reused) == ("it is new", None, None)
        await _run_all(here, [await _item(here, "old")])
        (again,) = await preview_pipeline(api, [await _item(here, "old", use_existing=False)])
        assert again.reason == "reuse is switched off"
        (other,) = await preview_pipeline(api, [await _item(here, "older")])
        assert other.reason == "its command changed"
        held = (await here.ok("GET", "containers"))["items"][0]["uuid"]
        await here.ok("POST", f"containers/{held}/withdraw", {"reason": "bad"})
        (gone,) = await preview_pipeline(api, [await _item(here, "old")])
        assert "withdrawn: bad" in gone.reason
        with pytest.raises(Invalid, match="#1 is not an earlier step"):
            await preview_pipeline(api, [await _item(here, "x", 1)])


async def test_steps_that_would_be_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        api = ApiClient(AsgiTransport(here.app), here.admin)
        with pytest.raises(BaseExceptionGroup) as caught:
            await preview_pipeline(api, [{**await _item(here, "x"), "container_image": "none:1"}])
        assert caught.group_contains(Invalid)


async def test_results_of_other_users(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        await _run_all(here, await _diamond(here))
        token = await here.user("u")
        image = await here.ensure_image(token)
        api = ApiClient(AsgiTransport(here.app), token)
        items = [{**one, "container_image": image} for one in await _diamond(here)]
        found = await preview_pipeline(api, items)
        assert [one.reason for one in found] == [
            "it is new", "it is new", "index runs", "place runs",
        ]  # fmt: skip
        # Once the user can read their outputs and logs, they are used, and not named.
        user = (await here.ok("GET", "users/current", token=token))["uuid"]
        for one in (await here.ok("GET", "collections", params={"limit": 100}))["items"]:
            link = {"link_class": "permission", "name": "can_read", "tail_uuid": user}
            await here.ok("POST", "links", {**link, "head_uuid": one["uuid"]})
        found = await preview_pipeline(api, items)
        assert [one.reused for one in found] == [""] * 4
        assert summary(found) == "4 steps: 4 reused"


def test_one_step_in_words() -> None:
    assert summary([StepPreview(name="a", reused="c")]) == "1 step: 1 reused"
    assert summary([StepPreview(name="a", reused=None, reason="b runs")]) == (
        "1 step: 0 reused, 1 to run"
    )
