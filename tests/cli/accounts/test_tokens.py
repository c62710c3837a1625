"""lading token against a real API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.site import Site


def _status(site: Site, method: str, path: str, token: str, body: object = None) -> int:
    return site.call(site.world.request(method, path, body, token=token)).status


def test_a_token_that_only_reads(site: Site) -> None:
    done = site.lading("token", "create", "--read-only", "--expires", "30d")
    secret = done.stdout.strip()
    uuid = secret.split("/")[1]
    assert "read only; good until 2" in done.stderr
    assert secret.split("/")[2] not in done.stderr
    assert _status(site, "GET", "collections", secret) == 200
    assert _status(site, "POST", "collections", secret, {}) == 403
    rows = [line.split() for line in site.lading("token", "list").stdout.splitlines()]
    assert rows[0] == ["UUID", "MADE", "USED", "EXPIRES", "MAY"]
    (row,) = (one for one in rows if one[0] == uuid)
    assert row[-2:] == ["read", "only"]
    assert secret.split("/")[2] not in site.lading("token", "show", secret).stdout
    assert f"revoked {uuid}" in site.lading("token", "revoke", secret).stderr
    assert _status(site, "GET", "collections", secret) == 401


def test_a_token_for_somebody_else_with_scopes(site: Site) -> None:
    user = site.lading("user", "create", "bert").stdout.strip()
    arguments = (
        "--scope",
        "GET /arvados/v1/collections/",
        "--scope",
        "post container_requests",
        "--upload",
    )
    made = json.loads(site.lading("token", "create", "--for", "bert", *arguments, "--json").stdout)
    assert made["owner_uuid"] == user
    assert made["token"].startswith(f"v2/{made['uuid']}/")
    assert made["scopes"][-2:] == [
        "GET /arvados/v1/collections/",
        "POST /arvados/v1/container_requests",
    ]
    assert "POST /arvados/v1/collections" in made["scopes"]
    assert made["expires_at"] is None
    (listed,) = json.loads(site.lading("token", "list", "--for", "bert", "--json").stdout)
    assert (listed["uuid"], "token" in listed) == (made["uuid"], False)
    assert "... (" in site.lading("token", "list", "--for", user).stdout
    everybody = json.loads(site.lading("token", "list", "--everybody", "--json").stdout)
    assert made["uuid"] in [one["uuid"] for one in everybody]
    assert _status(site, "POST", "collections", made["token"], {}) == 200


def test_a_token_for_one_collection(site: Site, here: Path) -> None:
    (here / "f").write_text("x")
    one, other = (
        json.loads(site.lading("put", "--json", "--name", name, "f").stdout)["uuid"]
        for name in ("read", "not read")
    )
    secret = site.lading("token", "create", "--collection", one).stdout.strip()
    assert [_status(site, "GET", f"collections/{uuid}", secret) for uuid in (one, other)] == [
        200,
        403,
    ]
    assert (
        "leave the path out"
        in site.lading("token", "create", "--collection", f"{one}/f", code=1).stderr
    )


def test_the_token_in_use(site: Site) -> None:
    shown = json.loads(site.lading("token", "show", "--json").stdout)
    assert shown["scopes"] == ["all"]
    text = site.lading("token", "show").stdout
    assert "never" in text
    assert "shut you out" in site.lading("token", "revoke", shown["uuid"], code=1).stderr


def test_ended_tokens_are_left_out(site: Site) -> None:
    made = json.loads(site.lading("token", "create", "--all", "--expires", "1h", "--json").stdout)
    path = f"api_client_authorizations/{made['uuid']}"
    site.call(site.world.ok("PUT", path, {"expires_at": "2020-01-01T00:00:00Z"}))
    assert made["uuid"] not in site.lading("token", "list").stdout
    assert made["uuid"] in site.lading("token", "list", "--expired").stdout
    assert json.loads(site.lading("token", "revoke", made["uuid"], "--json").stdout) == {
        "revoked": [made["uuid"]]
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create",), 2, "name the rights of the token"),
        (("create", "--all", "--read-only"), 2, "--all is everything"),
        (("create", "--scope", "collections"), 2, "write a method and a path"),
        (("create", "--scope", "GET /a b"), 2, "write a method and a path"),
        (("create", "--all", "--expires", "2020-01-01T00:00:00"), 2, "that moment has passed"),
        (("create", "--all", "--expires", "soon"), 2, "is no moment"),
        (("list", "--for", "ada", "--everybody"), 2, "has no --for"),
        (("revoke", "v2/secret"), 1, "not a token"),
        (("revoke", "zzzzz-gj3su-000000000000000"), 1, "none was revoked"),
    ],
)
def test_mistakes(site: Site, arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in site.lading("token", *arguments, code=code).stderr


def test_a_key_of_s3(site: Site) -> None:
    done = site.lading("token", "create", "--s3", "--read-only")
    lines = dict(
        line.removeprefix("export ").partition("=")[::2] for line in done.stdout.splitlines()
    )
    assert lines["AWS_ENDPOINT_URL"].endswith("/s3")
    uuid, secret = lines["AWS_ACCESS_KEY_ID"], lines["AWS_SECRET_ACCESS_KEY"]
    assert secret not in done.stderr
    assert _status(site, "GET", "collections", f"v2/{uuid}/{secret}") == 200
    made = json.loads(site.lading("token", "create", "--s3", "--all", "--json").stdout)
    assert made["token"] == f"v2/{made['access_key_id']}/{made['secret_access_key']}"


def test_a_token_that_only_stores(site: Site, here: Path) -> None:
    secret = site.lading("token", "create", "--upload", "--expires", "1h").stdout.strip()
    (here / "new.txt").write_text("stored by a token that reads nothing")
    uuid = json.loads(site.lading("put", "--json", "new.txt", token=secret).stdout)["uuid"]
    assert site.lading("cat", f"{uuid}/new.txt").stdout == "stored by a token that reads nothing"
    assert "scopes of this token" in site.lading("ls", uuid, token=secret, code=1).stderr
    # It ends today: the list has the time.
    (row,) = (
        one for one in site.lading("token", "list").stdout.splitlines() if secret[3:30] in one
    )
    assert row.split()[4].endswith("Z")
