"""lading project against a real API."""

from __future__ import annotations

import json
from pathlib import Path

from lading.cli.projects import path_of
from tests.cli.site import Site


def make(site: Site, name: str, *more: str) -> str:
    return site.lading("project", "create", name, *more).stdout.strip()


def test_projects_are_made_listed_and_shown(site: Site) -> None:
    thesis = make(site, "thesis", "--description", "all of it", "--property", "year=2026")
    figures = make(site, "figures", "--in", "thesis")
    head, *lines = site.lading("project", "list").stdout.splitlines()
    assert head.split() == ["UUID", "AGE", "IN", "PROJECT"]
    assert [line.split()[-1] for line in lines][-2:] == ["thesis", "thesis/figures"]
    inside = json.loads(site.lading("project", "list", "--json", "--in", "thesis").stdout)
    assert [one["uuid"] for one in inside] == [figures]
    mine = json.loads(site.lading("project", "list", "--json", "--mine").stdout)
    assert [one["uuid"] for one in mine] == [thesis]
    shown = site.lading("project", "show", "thesis").stdout
    assert "all of it" in shown
    assert "year=2026" in shown
    counts = json.loads(site.lading("project", "show", "--json", thesis).stdout)
    assert (counts["projects"], counts["collections"], counts["requests"]) == (1, 0, 0)
    refused = site.lading("project", "list", "--mine", "--in", "thesis", code=2)
    assert "give --in PROJECT or --mine" in refused.stderr


def test_runs_are_left_out_of_the_list(site: Site) -> None:
    run = json.loads(site.lading("runs", "begin", "a run", "--json").stdout)["uuid"]
    listed = json.loads(site.lading("project", "list", "--json").stdout)
    assert run not in [record["uuid"] for record in listed]
    every = json.loads(site.lading("project", "list", "--json", "--runs").stdout)
    assert run in [record["uuid"] for record in every]
    site.lading("runs", "end", run)
    site.lading("runs", "rm", run, "--yes")
    gone = json.loads(site.lading("project", "list", "--json", "--trashed").stdout)
    assert run in [record["uuid"] for record in gone]


def test_rename_and_move(site: Site) -> None:
    old, into = make(site, "old name"), make(site, "target")
    assert (
        "is called new name now" in site.lading("project", "rename", "old name", "new name").stderr
    )
    (moved,) = [json.loads(site.lading("project", "move", "--json", old, "target").stdout)]
    assert (moved["name"], moved["owner_uuid"]) == ("new name", into)
    assert (
        json.loads(site.lading("project", "show", "--json", "target/new name").stdout)["uuid"]
        == old
    )
    assert "is in your home now" in site.lading("project", "move", "new name").stderr


def test_trash_and_restore(site: Site) -> None:
    uuid = make(site, "gone")
    assert site.lading("project", "trash", "gone", code=1).stdout == ""
    said = site.lading("project", "trash", "gone", "--yes").stderr
    assert f"'lading project restore {uuid}' takes it out" in said
    assert "no project is called so" in site.lading("project", "show", "gone", code=1).stderr
    trashed = json.loads(site.lading("project", "list", "--trashed", "--json").stdout)
    assert [one["uuid"] for one in trashed if one["name"] == "gone"] == [uuid]
    assert f"{uuid} (gone) is back" in site.lading("project", "restore", "gone").stderr
    assert "no project in the trash" in site.lading("project", "restore", "gone", code=1).stderr


def test_sharing_by_name(site: Site) -> None:
    uuid = make(site, "shared")
    site.lading("user", "create", "eve")
    assert "eve" in site.lading("project", "share", "shared", "eve", "--can", "write").stdout
    assert "eve" in site.lading("share", uuid).stdout
    site.lading("project", "unshare", "shared", "eve")
    assert "shared with nobody" in site.lading("share", "shared").stderr


def test_a_user_is_no_project(site: Site) -> None:
    user = json.loads(site.lading("user", "show", "--json").stdout)["uuid"]
    assert "is a user" in site.lading("project", "rename", user, "x", code=1).stderr


def test_paths_of_projects() -> None:
    rows = {
        "a": {"uuid": "a", "name": "A", "owner_uuid": "user"},
        "b": {"uuid": "b", "name": "B", "owner_uuid": "a"},
        "c": {"uuid": "c", "name": "C", "owner_uuid": "c"},
    }
    assert [path_of(one, rows) for one in rows.values()] == ["A", "A/B", "C"]


def test_a_path_names_where_a_project_goes(site: Site) -> None:
    outer = make(site, "outer")
    inner = make(site, "outer/inner")
    assert json.loads(site.lading("project", "show", "--json", inner).stdout)["owner_uuid"] == outer
    again = site.lading("project", "create", "outer/inner", code=1).stderr
    assert "inner: a project of this name is there already, in outer" in again
    assert "in your home" in site.lading("project", "create", "outer", code=1).stderr
    assert "no project is called so" in site.lading("project", "create", "no/x", code=1).stderr
    site.lading("project", "create", "outer/x", "--in", "outer", code=2)


def test_rules_for_retries(site: Site) -> None:
    uuid = make(site, "ruled")
    assert "no rules" in site.lading("project", "retry", "ruled").stderr
    site.lading("project", "retry", "ruled", "oom=3,factor=2,most=1GiB", "node=5")
    said = site.lading("project", "retry", "ruled", "node=delay=1m", "--remove", "user").stdout
    lines = [line.split(maxsplit=2) for line in said.splitlines()]
    assert lines == [
        ["retry", "oom", "limit=3,factor=2,most=1073741824"],
        ["retry", "node", "delay=60"],
    ]
    assert "limit=3" in site.lading("project", "show", "ruled").stdout
    left = site.lading("project", "retry", "--json", uuid, "--remove", "oom").stdout
    assert json.loads(left) == {"uuid": uuid, "retry": {"node": {"delay": 60}}}
    refused = site.lading("project", "retry", "ruled", "moon=1", code=2)
    assert "must be one of user, oom" in refused.stderr


def test_weights_and_what_was_used(tmp_path: Path) -> None:
    with Site(tmp_path, Containers={"FairShare": {"Enabled": True}}) as site:
        uuid = make(site, "thesis")
        shown = site.lading("project", "weight", "thesis", "3").stdout
        assert shown.splitlines() == ["weight  3"]
        site.call(site.world.submit("date", owner_uuid=uuid))
        shown = site.lading("project", "weight", "thesis").stdout
        assert "0 at work, 1 wait" in shown
        head, *_, line = site.lading("project", "list").stdout.splitlines()
        assert head.split() == ["UUID", "AGE", "IN", "SHARE", "USED", "PROJECT"]
        assert line.split()[-4:] == ["3", "0.0", "times", "thesis"]
        (found,) = json.loads(site.lading("project", "list", "--json", "--mine").stdout)
        assert (found["share"], found["share_use"]["waiting"]) == (3.0, 1)
        removed = site.lading("project", "weight", "thesis", "--remove", "--json").stdout
        assert json.loads(removed)["share"] is None
        refused = site.lading("project", "weight", "thesis", "0", code=1).stderr
        assert "container_policy.share: must be a number from 0.1 to 1000" in refused


def test_weights_have_no_effect_without_fair_share(site: Site) -> None:
    make(site, "weighty")
    said = site.lading("project", "weight", "weighty", "2").stderr
    assert "fair share is off" in said
    both = site.lading("project", "weight", "weighty", "2", "--remove", code=2).stderr
    assert "give NUMBER or --remove" in both
