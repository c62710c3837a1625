"""Secrets of command lines against a real API: where they come from, and where they never are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.site import Play, Site

VALUE = "hunter2-of-the-canary"


@pytest.fixture(scope="module")
def image(site: Site) -> str:
    """The image that requests name."""
    return site.call(site.world.ensure_image())


def secret_mounts(site: Site, uuid: str) -> dict[str, Any]:
    """The secret mounts of the container of a request, as it reads them itself; it runs then."""
    world = site.world
    container = site.call(world.ok("GET", f"container_requests/{uuid}"))["container_uuid"]
    supervisor = site.call(world.lock(container))
    own = site.call(world.container_token(container))
    path = f"containers/{container}/secret_mounts"
    found: dict[str, Any] = site.call(world.ok("GET", path, token=own))["secret_mounts"]
    site.call(world.finish(container, supervisor))
    return found


def submitted(site: Site, *arguments: str, **more: Any) -> tuple[str, str]:
    """The uuid of a request, and the messages."""
    done = site.lading("run", "--detach", "--no-reuse", *arguments, **more)
    assert VALUE not in done.stdout + done.stderr
    return done.stdout.split()[0], done.stderr


def test_values_of_files_and_pipes(site: Site, image: str, here: Path) -> None:
    (here / "password").write_text(f"{VALUE}\n")
    given = ("--secret", "DB=@password", "--secret", "/etc/key@password", "--secret", "API=@-")
    uuid, said = submitted(site, "--image", image, *given, "--", "x", stdin=b"piped\n")
    assert "history" not in said
    assert "standard input is not given" not in said
    assert secret_mounts(site, uuid) == {
        "/run/secrets/DB": {"kind": "text", "content": VALUE, "environment_variable": "DB"},
        "/run/secrets/API": {"kind": "text", "content": "piped", "environment_variable": "API"},
        "/etc/key": {"kind": "text", "content": f"{VALUE}\n"},
    }
    record = site.call(site.world.ok("GET", f"container_requests/{uuid}"))
    assert record["secrets_needed"] == [
        {"target": "/etc/key", "kind": "text"},
        {"target": "/run/secrets/API", "kind": "text", "environment_variable": "API"},
        {"target": "/run/secrets/DB", "kind": "text", "environment_variable": "DB"},
    ]


def test_a_value_on_the_command_line_is_taken_and_advised_against(site: Site, image: str) -> None:
    uuid, said = submitted(site, "--image", image, "--secret", f"DB={VALUE}", "--", "x")
    assert said.count("history of your shell") == 1
    assert secret_mounts(site, uuid)["/run/secrets/DB"]["content"] == VALUE


def test_a_name_alone_is_asked_for_on_a_terminal(
    site: Site, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("run", "--image", image, "--secret", "DB", "--", "x")
    assert "no terminal to ask" in site.lading(*command, code=125).stderr
    monkeypatch.setattr("lading.cli.running.secrets.is_terminal", lambda: True)
    uuid, said = submitted(site, *command[1:], stdin=VALUE.encode() + b"\n")
    assert "secret DB" in said
    assert secret_mounts(site, uuid)["/run/secrets/DB"]["content"] == VALUE


def test_variables_that_look_like_secrets_get_one_line_of_advice(site: Site, image: str) -> None:
    telling = ("--env", "DB_PASSWORD=x", "--env", "HF_TOKEN=y", "--env", "HOME=/")
    _, said = submitted(site, "--image", image, *telling, "--", "x")
    (line,) = [one for one in said.splitlines() if "--env" in one]
    assert line == (
        "lading: DB_PASSWORD, HF_TOKEN: --env is shown to everybody who may read the request; "
        "for a secret use --secret DB_PASSWORD"
    )


@pytest.mark.parametrize(
    ("given", "code", "fault"),
    [
        (("--secret", f"A-B={VALUE}"), 125, "neither a variable"),
        (("--secret", "A=@-", "--secret", "A=@-"), 125, "given twice"),
        (("--secret", "A=@-", "--stdin"), 125, "both take standard input"),
        (("--secret", "A=@absent"), 125, "absent"),
        (("--secret", f"A={VALUE}", "--env", "A=1"), 125, "set twice"),
    ],
)
def test_mistakes_are_named_without_values(
    site: Site, image: str, given: tuple[str, ...], code: int, fault: str
) -> None:
    done = site.lading("run", "--image", image, *given, "--", "x", code=code, stdin=b"x")
    assert fault in done.stderr
    assert VALUE not in done.stdout + done.stderr


def test_no_record_message_or_log_has_it(site: Site, image: str) -> None:
    given = ("--image", image, "--secret", f"DB={VALUE}", "--", "told")
    preview = site.lading("run", "--preview", "--json", *given)
    uuid, _ = submitted(site, *given)
    secret_mounts(site, uuid)
    again, _ = submitted(site, "--image", image, "--secret", "DB=another", "--", "told")
    secret_mounts(site, again)
    shown = [
        preview.stdout + preview.stderr,
        *(site.lading("request", *one).stdout for one in (
            ("show", uuid, "--json"), ("why", uuid, "--json"), ("list", "--json"))),
        site.lading("diff", uuid, again, "--json", code=1).stdout,
        json.dumps(site.call(site.world.ok("GET", "logs", params={"limit": 1000}))),
    ]  # fmt: skip
    for plural in ("container_requests", "containers"):
        params = {"limit": 1000}
        shown.append(json.dumps(site.call(site.world.ok("GET", plural, params=params))))
    assert not [text for text in shown if VALUE in text]


def test_a_difference_of_secrets_is_told_to_their_user_alone(site: Site, image: str) -> None:
    told = ("--image", image, "--no-reuse", "--secret")
    first, _ = submitted(site, *told, f"DB={VALUE}", "--", "told")
    same, _ = submitted(site, *told, f"DB={VALUE}", "--", "told")
    other, _ = submitted(site, *told, "DB=another", "--", "told")
    (difference,) = json.loads(site.lading("diff", first, other, "--json", code=1).stdout)["steps"][
        0
    ]["differences"]
    assert difference["field"] == "secrets"
    assert "secrets" in site.lading("diff", first, other, code=1).stdout
    assert "secrets" not in site.lading("diff", first, same).stdout
    path = f"container_requests/{first}/why"

    def differ(uuid: str, **more: Any) -> object:
        params = {"compared_with": uuid}
        return site.call(site.world.ok("GET", path, params=params, **more))["secrets_differ"]

    assert (differ(same), differ(other)) == (False, True)
    # A guess of another user who reads the request is not confirmed.
    eve = site.call(site.world.user("eve"))
    site.lading("share", first, "eve")
    guess = site.call(
        site.world.submit("told", token=eve, secret_mounts={"/s": {"kind": "text", "content": "x"}})
    )
    assert differ(guess["uuid"], token=eve) is None
    assert differ(guess["uuid"]) is None


def test_each_item_of_a_map_has_it(site: Site, image: str, here: Path) -> None:
    for name in ("a", "b"):
        (here / name).write_text(name)
    (here / "password").write_text(VALUE)
    done = site.lading(
        "map", "--detach", "--no-reuse", "-i", "?", "--image", image, "--secret", "DB=@password",
        "--input", "/in={}", "--", "cat", "/in",
    )  # fmt: skip
    uuids = done.stdout.split()
    assert len(uuids) == 2
    for uuid in uuids:
        assert secret_mounts(site, uuid)["/run/secrets/DB"]["content"] == VALUE


def test_what_is_run_again_needs_it_again(site: Site, image: str, here: Path) -> None:
    (here / "password").write_text(VALUE)
    uuid, _ = submitted(site, "--image", image, "--secret", "DB=@password", "--", "again")
    before = secret_mounts(site, uuid)
    refused = site.lading("request", "rerun", uuid, code=1).stderr
    assert f"{uuid}: needs the secret DB, which no record has" in refused
    told = "no request that is run needs it"
    unneeded = ("--secret", "DB=@password", "--secret", "OTHER=@password")
    assert told in site.lading("request", "rerun", uuid, *unneeded, code=2).stderr
    done = site.lading("request", "rerun", uuid, "--secret", "DB=@password")
    assert secret_mounts(site, done.stdout.split()[0]) == before


def test_a_replay_and_an_export_say_that_it_is_needed(site: Site, image: str, here: Path) -> None:
    (here / "password").write_text(VALUE)
    uuid, _ = submitted(site, "--image", image, "--secret", "DB=@password", "--", "replayed")
    secret_mounts(site, uuid)
    assert "needs the secret DB" in site.lading("replay", uuid, code=1).stderr
    command = ("replay", uuid, "--secret", "DB=@password")
    played = site.command(*command, plays=[Play(files={"out.txt": b"output"})])
    assert VALUE not in played.stdout + played.stderr
    said = site.lading("export", uuid, "-o", "crate").stderr
    assert "DB: secrets that the commands need, and that are not in the crate" in said
    texts = [path.read_text() for path in (here / "crate").rglob("*") if path.is_file()]
    assert not [text for text in texts if VALUE in text]
    assert [text for text in texts if "a secret, which no record has" in text]
    assert "needs the secret DB" in site.lading("replay", "./crate", code=1).stderr
