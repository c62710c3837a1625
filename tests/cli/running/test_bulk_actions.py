"""Cancel, delete and repeat requests, one or many."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lading.cli.running.bulk_actions import act_on_each
from lading.client.request_states import repeated
from lading.core.errors import Forbidden
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def listed(site: Site, *arguments: str) -> list[dict[str, Any]]:
    found = site.lading("request", "list", "--json", "--sort", "name", *arguments)
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def names(site: Site, *arguments: str) -> list[str]:
    return [one["name"] for one in listed(site, *arguments)]


def submit(site: Site, image: str, name: str, *more: str) -> str:
    arguments = ("--detach", "--image", image, "--name", name, *more, "--", "do", name)
    return site.lading("run", *arguments).stdout.strip()


def test_cancel(site: Site, image: str) -> None:
    uuid = submit(site, image, "cancelled")
    assert f"{uuid}: cancelled" in site.lading("request", "cancel", "cancelled").stderr
    (again,) = json.loads(site.lading("request", "cancel", "--json", uuid).stdout)
    assert (again["uuid"], again["priority"]) == (uuid, 0)


@pytest.mark.parametrize("action", ["cancel", "delete", "rerun"])
def test_an_unknown_name_touches_no_other(site: Site, image: str, action: str) -> None:
    for name in ("a", "b"):
        submit(site, image, f"{action}.{name}")
    names = (f"{action}.a", f"{action}.b", "nosuch")
    refused = site.lading("request", action, *names, code=1)
    assert "nosuch: no request has this name" in refused.stderr
    assert "none of the 3 was touched" in refused.stderr
    found = listed(site, "--name", f"{action}.*")
    assert [one["state"] for one in found] == ["Committed"] * 2


async def test_one_failure_leaves_the_others_told() -> None:
    async def act(uuid: str) -> dict[str, Any]:
        if uuid == "b":
            raise Forbidden("b: it is not yours")
        return {"uuid": uuid}

    first, second, third = await act_on_each(["a", "b", "c"], act)
    assert (first, third) == ({"uuid": "a"}, {"uuid": "c"})
    assert isinstance(second, Forbidden)


def test_many_are_cancelled_by_name(site: Site, image: str) -> None:
    for name in ("gone.0", "gone.1", "stays"):
        submit(site, image, name)
    refused = site.lading("request", "cancel", "--name", "gone.*", code=1)
    assert "2 requests match; give --yes to cancel" in refused.stderr
    assert names(site, "--name", "gone.*", "--state", "Final") == []
    site.lading("request", "cancel", "--name", "gone.*", "--yes")
    assert names(site, "--name", "gone.*", "--state", "Final") == ["gone.0", "gone.1"]
    assert names(site, "--name", "stays", "--state", "Committed") == ["stays"]
    site.lading("request", "cancel", "--name", "stays", "--state", "queued", "--yes")
    refused = site.lading("request", "cancel", "--name", "gone.*", "--yes", code=1)
    assert "no request that has not ended matches" in refused.stderr


@pytest.mark.parametrize("action", ["cancel", "delete", "rerun"])
@pytest.mark.parametrize("arguments", [(), ("last", "--name", "x"), ("last", "--failed")])
def test_either_names_or_options(site: Site, action: str, arguments: tuple[str, ...]) -> None:
    refused = site.lading("request", action, *arguments, code=2)
    assert "Name requests, or give --name, --project" in refused.stderr


def test_delete(site: Site, image: str) -> None:
    site.command(
        "run", "--image", image, "--name", "old.0", "--", "old", plays=[Play(exit_code=4)], code=4
    )
    live = submit(site, image, "old.1")
    refused = site.lading("request", "delete", "old.0", "old.1", code=1)
    assert f"{live}: has not ended" in refused.stderr
    assert names(site, "--name", "old.*") == ["old.0", "old.1"]
    done = site.lading("request", "delete", "--name", "old.*", "--yes")
    assert len(done.stderr.splitlines()) == 1
    assert names(site, "--name", "old.*") == ["old.1"]
    site.lading("request", "cancel", live)
    (gone,) = json.loads(site.lading("request", "delete", "--json", live).stdout)
    assert gone["uuid"] == live


def test_what_is_being_cancelled_is_not_to_be_cancelled_again(site: Site, image: str) -> None:
    live = submit(site, image, "slow")
    shown = json.loads(site.lading("request", "show", "--json", live).stdout)
    container = shown["container_uuid"]
    supervisor = site.call(site.world.lock(container))
    state = {"state": "Running"}
    site.call(site.world.ok("PUT", f"containers/{container}", state, token=supervisor))
    site.lading("request", "cancel", live)
    assert "running (cancelling)" in site.lading("request", "list", "--name", "slow").stdout
    refused = site.lading("request", "delete", live, code=1)
    assert f"{live}: is being cancelled; 'lading wait {live}' first" in refused.stderr


def test_what_failed_is_run_again_with_what_it_needs(site: Site, image: str) -> None:
    first = submit(site, image, "step.0", "--property", "k=v", "--env", "A=1")
    submit(site, image, "step.1", "--input", f"/in={first}", "--after", first)
    site.lading("request", "cancel", "step.0")
    site.lading("request", "cancel", "step.1")
    again = site.lading("request", "rerun", "--name", "step.*", "--state", "cancelled", "--yes")
    new = again.stdout.split()
    assert "2 requests submitted" in again.stderr
    rows = {one["uuid"]: one for one in listed(site, "--name", "step.*", "--state", "Committed")}
    assert set(rows) == set(new)
    made = [json.loads(site.lading("request", "show", "--json", one).stdout) for one in new]
    assert [one["name"] for one in made] == ["step.0", "step.1"]
    assert (made[0]["properties"], made[0]["environment"]) == ({"k": "v"}, {"A": "1"})
    assert (made[0]["use_existing"], made[0]["priority"]) == (False, 500)
    assert made[1]["depends_on"] == [new[0]]
    assert made[1]["mounts"]["/in"] == {"kind": "output", "container_request": new[0]}
    (third,) = json.loads(site.lading("request", "rerun", "--json", "--reuse", "step.0").stdout)
    assert (third["use_existing"], third["command"]) == (True, ["do", "step.0"])


def test_requests_outside_of_the_repeated_ones_are_kept() -> None:
    mounts = {"/a": {"kind": "output", "container_request": "old"}, "/b": {"kind": "tmp"}}
    body = repeated({"depends_on": ["x", "old"], "mounts": mounts, "name": None}, {"old": "#0"})
    assert body == {
        "depends_on": ["x", "#0"],
        "mounts": {"/a": {"kind": "output", "container_request": "#0"}, "/b": {"kind": "tmp"}},
    }
