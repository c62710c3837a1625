"""lading request against a real API, with containers that are acted."""

from __future__ import annotations

import json

import pytest

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


def test_the_list_has_age_state_exit_code_and_reuse(site: Site, image: str) -> None:
    first = _run(site, image, "listed")
    site.lading("run", "--image", image, "--", "listed")
    waiting = site.lading("run", "--detach", "--image", image, "--", "waiting").stdout.strip()
    head, *lines = site.lading("request", "list", "--limit", "3").stdout.splitlines()
    assert head.split() == [
        "REQUEST",
        "AGE",
        "STATE",
        "TOOK",
        "MEMORY",
        "CPU",
        "REUSED",
        "NAME",
        "OR",
        "COMMAND",
    ]
    assert lines[0].split()[0] == waiting
    assert "waiting" in lines[0]
    assert "yes" in lines[1].split()
    assert (lines[2].split()[0], "yes" in lines[2].split()) == (first, False)
    final = json.loads(site.lading("request", "list", "--json", "--state", "Final").stdout)
    assert {one["state"] for one in final} == {"Final"}
    assert final[0]["container"]["exit_code"] == 0


def test_a_request_that_misses_its_deadline_is_named(site: Site, image: str) -> None:
    late, early = (
        site.call(
            site.world.submit(year, scheduling_parameters={"deadline": f"{year}-01-01T00:00:00Z"})
        )
        for year in ("2020", "9000")
    )
    done = site.lading("request", "list", "--limit", "2")
    said = done.stdout + done.stderr
    assert (
        f"{late['uuid']}: It is expected to miss its deadline, 2020-01-01 00:00:00 UTC, by " in said
    )
    assert f"{early['uuid']}: " not in said
    assert "9000-01-01 00:00:00 UTC" in site.lading("request", "show", early["uuid"]).stdout


def test_what_requests_wait_for_stands_below(site: Site, image: str) -> None:
    admin = site.lading("user", "list", "--json").stdout
    name = next(one["username"] for one in json.loads(admin) if one["is_admin"])
    site.lading("quota", "set", f"user:{name}", "--containers", "0", "--contact", "Eve")
    site.lading("quota", "set", f"user:{name}", "--containers", "1")
    for number in range(3):
        site.lading("run", "--detach", "--image", image, "--", "quota", str(number))
    done = site.lading("request", "list", "--limit", "2")
    assert done.stdout.count("waiting (usage quota)") == 2
    assert "1 of these: It waits for the quota of the user" in done.stderr or (
        "2 of these: It waits for the quota of the user" in done.stderr
    )
    listed = json.loads(site.lading("request", "list", "--limit", "3", "--json").stdout)
    waits = [one["waits"] for one in listed]
    assert waits[2] is None or waits[2]["reason"] == "usage quota"
    assert "of 1 containers" in waits[0]["sentence"]
    site.lading("quota", "remove", f"user:{name}")
    assert "usage quota" not in site.lading("request", "list").stdout
    for one in listed:
        site.lading("request", "cancel", one["uuid"])


def test_change(site: Site, image: str) -> None:
    uuid = site.lading(
        "run", "--detach", "--image", image, "--property", "a=1", "--", "changed"
    ).stdout.strip()
    assert (
        f"{uuid}: changed"
        in site.lading("request", "change", uuid, "--priority", "900", "--expires", "9d").stderr
    )
    arguments = ("--attempts", "5", "--name", "N", "--description", "D", "--property", "b=2")
    (made,) = json.loads(site.lading("request", "change", "--json", uuid, *arguments).stdout)
    assert (made["priority"], made["container_count_max"], made["name"], made["description"]) == (
        900,
        5,
        "N",
        "D",
    )
    assert (made["properties"], bool(made["expires_at"])) == ({"a": 1, "b": 2}, True)
    assert "nothing to change" in site.lading("request", "change", uuid, code=2).stderr


def test_logs(site: Site, image: str) -> None:
    uuid = _run(site, image, "logged", play=Play(stdout=b"out\nput", stderr=b"err\n"))
    done = site.lading("request", "logs", uuid)
    assert (done.stdout, done.stderr) == ("out\nput", "err\n")
    assert site.lading("request", "logs", "--file", "crunch-run.txt", uuid).stdout == "hi\n"
    refused = site.lading("request", "logs", "--file", "nosuch", uuid, code=1).stderr
    assert "nosuch: no such file in the log; it has crunch-run.txt" in refused
    assert (
        json.loads(site.lading("request", "logs", "--json", uuid).stdout)["stderr.txt"] == "err\n"
    )
    stamped = site.lading("request", "logs", "-t", uuid).stdout.splitlines()
    assert [line.split()[1] for line in stamped] == ["out", "put", "err"]
    followed = site.lading("request", "logs", "-f", uuid)
    assert followed.stdout == "out\nput"
    assert "leave out --file" in site.lading("request", "logs", "-f", "-t", uuid, code=2).stderr


def test_logs_of_what_has_no_container(site: Site, image: str) -> None:
    spec = site.call(site.world.spec("draft"))
    made = site.call(site.world.ok("POST", "container_requests", {**spec, "state": "Uncommitted"}))
    assert site.lading("request", "logs", made["uuid"]).stdout == ""
    assert "state" in site.lading("request", "show", made["uuid"]).stdout
    assert "draft" in site.lading("request", "list").stdout


def test_why_names_the_fields_that_differ(site: Site, image: str) -> None:
    _run(site, image, "why", "--quality", "20")
    _run(site, image, "why", "--quality", "30")
    text = site.lading("request", "why", "last").stdout
    assert "which differs in" in text
    assert ["command[2]", "30", "20"] in [line.split() for line in text.splitlines()]
    answer = json.loads(site.lading("request", "why", "--json", "last").stdout)
    assert answer["decision"]["nearest"]["differences"][0]["field"] == "command[2]"
    site.lading("run", "--image", image, "--", "why", "--quality", "20")
    assert "decision   reuse zzzzz-dz642-" in site.lading("request", "why", "last").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zzzzz-xvhdp-000000000000000", "not found"),
        ("nosuchend", "nosuchend: no request has this name, or a uuid that ends so"),
        ("%", "%: no request has this name, or a uuid that ends so; see 'lading request list'"),
    ],
)
def test_requests_that_are_not_there(site: Site, image: str, text: str, said: str) -> None:
    assert said in site.lading("request", "show", text, code=1).stderr


def test_decisions_of_dispatchers(site: Site, image: str) -> None:
    spec = site.call(site.world.spec("waits"))
    made = site.call(
        site.world.ok("POST", "container_requests", {**spec, "state": "Committed", "priority": 1})
    )
    shown = ("request", "logs", "--dispatch", made["uuid"])
    assert "no dispatcher has decided" in site.lading(*shown).stderr
    event = {
        "container_uuid": made["container_uuid"],
        "event_type": "decided_to_run",
        "text": "It fits.",
        "age": 1,
    }
    site.call(site.world.ok("POST", "dispatch/statuses", {"items": {}, "events": [event]}))
    assert site.lading(*shown).stdout.splitlines()[-1].split()[-5:] == [
        "decided",
        "to",
        "run",
        "It",
        "fits.",
    ]
    assert json.loads(site.lading(*shown, "--json").stdout)[0]["event_type"] == "decided_to_run"
    assert "It fits." in site.lading("request", "why", made["uuid"]).stdout
    assert "leave out --follow" in site.lading(*shown, "-f", code=2).stderr


def test_a_long_command_is_cut_in_the_list_and_whole_in_its_own(site: Site, image: str) -> None:
    long = "x" * 100_000
    uuid = site.lading("run", "--detach", "--image", image, "--", "long", long).stdout.strip()
    listed = site.lading("request", "list", "--limit", "1").stdout
    assert max(map(len, listed.splitlines())) < 500
    assert long in site.lading("request", "show", uuid).stdout
    refused = site.lading("request", "show", long[:5000], code=1).stderr
    assert len(refused) < 500
    site.lading("request", "cancel", uuid)
