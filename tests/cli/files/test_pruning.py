"""prune against a real API, and what ls and undelete hide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lading.client.api import Record
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def run(site: Site, image: str, name: str, *more: str, data: bytes = b"", code: int = 0) -> Record:
    """A request with an output of these bytes."""
    site.command(
        "run", "--image", image, "--name", name, *more, "--", name,
        plays=[Play(stdout=data, files={"out": data or name.encode()}, exit_code=code)], code=code,
    )  # fmt: skip
    found: list[Record] = json.loads(site.lading("request", "list", "--json").stdout)
    return next(one for one in found if one["name"] == name)


def pruned(site: Site, *arguments: str) -> Any:
    return json.loads(site.lading("prune", "--json", *arguments).stdout)


def listed(site: Site, *arguments: str) -> set[str]:
    return {one["name"] for one in json.loads(site.lading("ls", "--json", *arguments).stdout)}


def test_nothing_is_done_unasked(site: Site, image: str) -> None:
    run(site, image, "asked", data=b"12345")
    assert "Say which" in site.lading("prune", code=2).stderr
    done = site.lading("prune", "--name", "asked")
    assert "frees 5 B" in done.stderr
    assert "nothing was changed; --yes does it" in done.stderr
    # Its output, its log, and the log of its container.
    found = pruned(site, "--name", "asked")
    assert (len(found["collections"]), found["freed"], found["done"]) == (3, 5, False)
    logs = pruned(site, "--name", "asked", "--logs-only")
    assert (len(logs["collections"]), logs["freed"]) == (2, 0)
    assert "nothing to prune" in site.lading("prune", "--name", "nosuch").stderr
    assert "nothing to prune" in site.lading("prune", "--name", "asked", "--older", "9999d").stderr
    # A time of nothing is named, too.
    assert "frees " in site.lading("prune", "--older", "0s").stderr


def test_outputs_and_logs_go_to_the_trash(site: Site, image: str) -> None:
    made = run(site, image, "gone", data=b"gone for good")
    assert "3 collections in the trash" in site.lading("prune", "--name", "gone", "--yes").stderr
    assert "trash" in site.lading("ls", made["uuid"], code=1).stderr
    hidden = f"Container output for request {made['uuid']}"
    shown = json.loads(site.lading("undelete", "--json", "--all").stdout)
    assert hidden in {one["name"] for one in shown}
    assert hidden not in site.lading("undelete", "--json").stdout
    assert site.lading("request", "show", made["uuid"]).stdout


def test_requests_go_with_their_logs(site: Site, image: str) -> None:
    made = run(site, image, "all", data=b"12")
    assert pruned(site, "--name", "all", "--requests")["freed"] > 2
    assert pruned(site, "--name", "all", "--requests", "--yes")["requests"] == [made["uuid"]]
    assert site.lading("request", "show", made["uuid"], code=1).stderr
    assert pruned(site, "--name", "all", "--requests")["requests"] == []


def test_what_is_used_is_never_reused_no_more(site: Site, image: str) -> None:
    first = run(site, image, "first", data=b"1")
    again = run_again(site, image, "first", "again")
    assert again["container_uuid"] == first["container_uuid"]
    source = run(site, image, "source", data=b"source")
    run(site, image, "user", "--input", f"/in={source['uuid']}", data=b"made of it")
    found = pruned(site, "--never-reused", "--name", "[fsua]*")
    names = {
        one["name"]
        for one in json.loads(site.lading("request", "list", "--json").stdout)
        if one["uuid"] in found["requests"]
    }
    assert "user" in names
    assert not names & {"first", "again", "source"}


def run_again(site: Site, image: str, command: str, name: str) -> Record:
    site.lading("run", "--image", image, "--name", name, "--", command)
    found: list[Record] = json.loads(site.lading("request", "list", "--json").stdout)
    return next(one for one in found if one["name"] == name)


def test_what_waits_keeps_its_inputs(site: Site, image: str) -> None:
    source = run(site, image, "needed", data=b"needed")
    late = ["run", "--detach", "--image", image, "--input", f"/in={source['uuid']}", "--", "x"]
    site.lading(*late)
    found = pruned(site, "--name", "needed", "--requests")
    assert (found["kept"], found["requests"]) == (1, [])
    assert "1 collection still needed" in site.lading("prune", "--name", "needed").stderr


def test_an_output_that_is_awaited_stays(site: Site, image: str) -> None:
    site.lading("run", "--detach", "--name", "open", "--image", image, "--", "later")
    site.lading("run", "--detach", "--image", image, "--input", "/in=last", "--", "y")
    assert pruned(site, "--name", "open")["collections"] == []


def test_named_outputs_are_data(site: Site, image: str) -> None:
    run(site, image, "plain")
    run(site, image, "titled", "--output-name", "result of mine")
    own, every = listed(site), listed(site, "--all")
    assert "result of mine" in own
    assert not any(name.startswith("Container ") for name in own)
    assert any(name.startswith("Container output") for name in every)
    assert any(name.startswith("Container log") for name in every)
    assert len(pruned(site, "--name", "titled")["collections"]) == 2
    assert len(pruned(site, "--name", "titled", "--named")["collections"]) == 3
