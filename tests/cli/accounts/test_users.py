"""lading user against a real API."""

from __future__ import annotations

import json

import pytest

from tests.cli.site import Site


def _show(site: Site, who: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(site.lading("user", "show", who, "--json").stdout)
    return found


def test_a_user_from_the_first_day_to_the_last(site: Site) -> None:
    done = site.lading(
        "user", "create", "grace", "--email", "grace@example.org", "--first-name", "Grace"
    )
    uuid = done.stdout.strip()
    assert "lading token create --for grace" in done.stderr
    shown = _show(site, "grace")
    assert (shown["uuid"], shown["email"], shown["is_active"], shown["is_admin"]) == (
        uuid, "grace@example.org", True, False,
    )  # fmt: skip
    assert site.lading("user", "show", "grace@example.org").stdout.splitlines()[0].split() == [
        "uuid",
        uuid,
    ]
    site.lading(
        "user", "change", "grace", "--last-name", "H", "--admin", "--email", "g@example.org"
    )
    text = site.lading("user", "show", uuid).stdout
    assert "Grace H" in text
    assert "admin" in text
    site.lading("user", "change", "g@example.org", "--no-admin", "--name", "grace2")

    secret = site.lading("token", "create", "--for", "grace2", "--all").stdout.strip()
    assert site.call(site.world.request("GET", "collections", token=secret)).status == 200
    assert "their tokens are refused" in site.lading("user", "deactivate", "grace2").stderr
    assert site.call(site.world.request("GET", "collections", token=secret)).status == 403
    rows = [line.split() for line in site.lading("user", "list", "--inactive").stdout.splitlines()]
    assert ["grace2", "g@example.org", "inactive", uuid] in rows
    assert (
        json.loads(site.lading("user", "activate", "grace2", "--json").stdout)["is_active"] is True
    )
    assert site.call(site.world.request("GET", "collections", token=secret)).status == 200
    assert "have ended" in site.lading("user", "deactivate", "grace2", "--revoke").stderr
    assert site.call(site.world.request("GET", "collections", token=secret)).status == 401

    refused = site.lading("user", "delete", "grace2", code=1, stdin=b"n\n").stderr
    assert "nothing was changed" in refused
    assert "--yes gives it" in site.lading("user", "delete", "grace2", code=1, stdin=b"").stderr
    assert "deleted" in site.lading("user", "delete", "grace2", "--yes").stderr
    assert "no user is called so" in site.lading("user", "show", "grace2", code=1).stderr


def test_a_user_who_is_not_let_in_yet(site: Site) -> None:
    made = json.loads(site.lading("user", "create", "later", "--inactive", "--json").stdout)
    assert (made["username"], made["is_active"]) == ("later", False)
    site.lading("user", "delete", made["uuid"], "--yes", "--json")


def test_lists_and_oneself(site: Site) -> None:
    myself = json.loads(site.lading("user", "show", "--json").stdout)
    assert myself["is_admin"] is True
    listed = json.loads(site.lading("user", "list", "--json").stdout)
    assert myself["uuid"] in [one["uuid"] for one in listed]
    assert [one["username"] or "" for one in listed] == sorted(
        one["username"] or "" for one in listed
    )
    assert site.lading("user", "list").stdout.split()[:4] == ["NAME", "EMAIL", "STATE", "UUID"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "zzzzz-j7d0g-000000000000000"), 1, "is not the uuid of a user"),
        (("show", "nobody@example.org"), 1, "no user is called so"),
        (("change", "nobody"), 2, "name an attribute to change"),
        (("create",), 2, "NAME"),
    ],
)
def test_mistakes(site: Site, arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in site.lading("user", *arguments, code=code).stderr


def test_a_name_that_is_taken(site: Site) -> None:
    site.lading("user", "create", "once")
    assert "'once' is taken" in site.lading("user", "create", "once", code=1).stderr


def test_a_name_with_a_blank_is_quoted_in_the_next_command(site: Site) -> None:
    done = site.lading("user", "create", "Grace Hopper")
    assert "'lading token create --for 'Grace Hopper' --all'" in done.stderr
