"""lading webhook against a real API."""

from __future__ import annotations

import json

from tests.cli.site import Site


def test_the_life_of_a_webhook(site: Site) -> None:
    site.lading("project", "create", "thesis")
    options = ("--name", "ci", "--state", "Final", "--for", "thesis", "--in", "thesis")
    done = site.lading("webhook", "create", "http://127.0.0.1:9/x", *options)
    uuid, secret = done.stdout.split()
    assert secret.startswith("whsec_")
    assert "shown this once" in done.stderr
    (found,) = json.loads(site.lading("webhook", "list", "--json").stdout)
    assert (found["uuid"], found["states"], "secret" in found) == (uuid, ["Final"], False)
    assert found["owner_uuid"] == found["project_uuid"]
    assert "lading.container_request.* to Final" in site.lading("webhook", "list").stdout
    tested = site.lading("webhook", "test", "ci", code=1)
    assert "inside network; ask the admin" in tested.stderr
    assert "is paused" in site.lading("webhook", "pause", "ci", "--reason", "too loud").stderr
    assert "too loud" in site.lading("webhook", "show", "ci").stdout
    assert json.loads(site.lading("webhook", "resume", uuid, "--skip", "--json").stdout)[
        "state"
    ] == ("Active")
    shown = site.lading("webhook", "deliveries", "ci").stdout
    assert "delivered  0" in shown
    assert json.loads(site.lading("webhook", "deliveries", "ci", "--json").stdout)["dead"] == []
    assert "0 dead letters are sent again" in site.lading("webhook", "redeliver", "ci").stderr
    assert (
        "0 dead letters are sent again"
        in site.lading("webhook", "redeliver", "ci", "3", "4").stderr
    )
    rotated = site.lading("webhook", "rotate", "ci", "--keep", "2h")
    assert rotated.stdout.strip() not in ("", secret)
    assert "the former secret is valid until" in rotated.stderr
    assert "valid until" in site.lading("webhook", "show", "ci").stdout
    done = site.lading("webhook", "rotate", "ci", "--keep", "0", "--json")
    assert json.loads(done.stdout)["former_secret_until"] is None
    assert f"deleted {uuid}" in site.lading("webhook", "delete", "ci").stderr
    assert "no such webhook" in site.lading("webhook", "show", "ci", code=1).stderr


def test_email_needs_no_format(site: Site) -> None:
    done = site.lading("webhook", "create", "mailto:ada@example.org", "--json")
    assert json.loads(done.stdout)["format"] == "email"
    tested = site.lading("webhook", "test", json.loads(done.stdout)["uuid"], "--json", code=1)
    assert "Mail.Host" in json.loads(tested.stdout)["fault"]


def test_mistakes(site: Site) -> None:
    for url, fault in (
        ("ftp://a.example/x", "https://"),
        ("https://me:word@a.example/", "no password"),
    ):
        assert fault in site.lading("webhook", "create", url, code=1).stderr
    for _ in range(2):
        site.lading("webhook", "create", "https://a.example/", "--name", "twice")
    assert "give the uuid" in site.lading("webhook", "show", "twice", code=1).stderr
