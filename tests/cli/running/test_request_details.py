"""lading request show."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lading.cli.running.request_details import describe
from tests.cli.site import Play, Site


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def _run(site: Site, image: str, *command: str, play: Play | None = None) -> str:
    done = site.command(
        "run", "--json", "--image", image, "--", *command, plays=[play or Play()], code=0
    )
    return str(json.loads(done.stdout)["uuid"])


def test_show(site: Site, image: str) -> None:
    uuid = _run(site, image, "shown")
    text = site.lading("request", "show", uuid).stdout
    assert uuid in text
    assert "1 vcpus, 256.0 MiB" in text
    shown = json.loads(site.lading("request", "show", "--json", uuid[-6:]).stdout)
    assert (shown["uuid"], shown["container"]["state"]) == (uuid, "Complete")


def test_show_names_end_user_and_project(site: Site, image: str) -> None:
    project = site.call(site.world.ok("POST", "groups", {"group_class": "project", "name": "Th"}))
    site.command(
        "run", "--image", image, "--project", "Th", "--name", "owned", "--", "owned", plays=[Play()]
    )
    lines = site.lading("request", "show", "owned").stdout.splitlines()
    fields = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert fields["project"] == f"Th ({project['uuid']})"
    assert fields["ended"].endswith("ago)")
    assert "-tpzed-" in fields["user"]
    _run(site, image, "unowned")
    assert "home of " in site.lading("request", "show", "last").stdout


def test_mounts_are_described() -> None:
    request = {
        "uuid": "u", "name": None, "state": "Committed", "created_at": "2026-01-02T03:04:05Z",
        "priority": 1, "command": ["x"], "container_image": "i",
        "output_uuid": None, "log_uuid": None, "owner_uuid": "zzzzz-tpzed-000000000000000",
        "runtime_constraints": {"vcpus": [1, 4], "ram": 1 << 30, "gpu": {"device_count": 2}},
        "mounts": {"/a": {"kind": "collection", "uuid": "c", "path": "p"}, "/b": {"kind": "tmp"}},
    }  # fmt: skip
    described = dict(describe(request, None, datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC), names={}))
    assert (described["mount /a"], described["mount /b"]) == ("c/p", "tmp")
    assert described["created"].endswith("(1 h ago)")
    assert described["needs"] == "1 to 4 vcpus, 1.0 GiB, 2 GPUs"


def test_every_attempt_is_shown_with_class_amounts_and_cost(site: Site, image: str) -> None:
    wanted = ("run", "--detach", "--image", image, "--retry", "oom=1,factor=2", "--", "hog")
    uuid = site.lading(*wanted).stdout.strip()
    world = site.world
    first = site.call(world.ok("GET", f"container_requests/{uuid}"))["container_uuid"]
    oom = {"failure": "oom", "error": "all its ram was used"}
    site.call(world.run(first, exit_code=137, runtime_status=oom, cost=0.5))
    text = site.lading("request", "show", uuid).stdout
    assert f"{first}: failed 137 (oom): all its ram was used" in text
    assert "256.0 MiB of ram, cost 0.5000" in text
    (attempt,) = json.loads(site.lading("request", "show", "--json", uuid).stdout)["attempts"]
    assert (attempt["uuid"], attempt["cost"]) == (first, 0.5)
    why = site.lading("request", "why", uuid).stdout
    assert "tried before" in why
    assert "with 512.0 MiB of ram in place of 256.0 MiB" in why
