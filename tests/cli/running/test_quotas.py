"""lading quota against a real API."""

from __future__ import annotations

import json

from tests.cli.site import Site


def test_the_life_of_a_quota(site: Site) -> None:
    site.lading("project", "create", "thesis")
    done = site.lading("quota", "set", "thesis", "--containers", "2", "--ram", "8GiB")
    assert "the quota of project thesis is set" in done.stderr
    given = ("--money", "200/week", "--budget", "500", "--warn-at", "75", "--stop")
    done = site.lading("quota", "set", "project:thesis", *given, "--json")
    found = json.loads(done.stdout)
    assert (found["containers"], found["ram"], found["money"]) == (2, 8 << 30, 200.0)
    assert (found["period"], found["budget"], found["warn_share"]) == ("week", 500.0, 0.75)
    (listed,) = json.loads(site.lading("quota", "list", "--json").stdout)
    assert (listed["uuid"], listed["use"]["containers"]) == (found["uuid"], 0)
    shown = site.lading("quota", "show", "thesis").stdout
    assert "thesis   project  containers    0        2        ░░░░░░░░░░ 0%" in shown
    assert "$200.00" in shown
    assert "what runs is stopped" in shown
    site.lading("quota", "set", "thesis", "--ram", "none", "--no-stop")
    assert "RAM" not in site.lading("quota", "list").stdout
    removed = site.lading("quota", "remove", "thesis").stderr
    assert "the quota of project thesis is removed" in removed
    assert "has no quota" in site.lading("quota", "show", "thesis", code=1).stderr


def test_mistakes(site: Site) -> None:
    site.lading("project", "create", "lab")
    for given, fault in (
        (("set", "nobody", "--vcpus", "1"), "no user, project or role is called so"),
        (("set", "lab"), "no limit is given"),
        (("set", "lab", "--vcpus", "many"), "must be a number, or none"),
        (("set", "lab", "--money", "5/year"), "no amount in dollars"),
        (("set", "role:lab", "--vcpus", "1"), "no user, project or role is called so"),
    ):
        assert fault in site.lading("quota", *given, code=1).stderr
