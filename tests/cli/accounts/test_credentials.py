"""lading credential against a real API."""

from __future__ import annotations

import json

from tests.cli.site import Site


def test_a_key_of_a_bucket(site: Site) -> None:
    options = ("--key", "AKIA", "--endpoint", "https://minio.example:9000", "--region", "eu")
    done = site.lading("credential", "set", "minio", "s3://data/p", *options, stdin=b"s3cret\n")
    uuid = done.stdout.strip()
    assert "minio: stored for s3://data/p until 2" in done.stderr
    (found,) = json.loads(site.lading("credential", "list", "--json").stdout)
    assert found["scopes"] == ["s3://data/p?endpoint=https%3A%2F%2Fminio.example%3A9000&region=eu"]
    assert (found["uuid"], found["credential_class"], "secret" in found) == (uuid, "s3", False)
    again = site.lading(
        "credential", "set", "minio", "https://h/", "--bearer", "--expires", "30d", stdin=b"t"
    )
    assert again.stdout.strip() == uuid
    table = site.lading("credential", "list").stdout
    assert "bearer" in table
    assert "s3cret" not in table + done.stdout + done.stderr
    assert "removed minio" in site.lading("credential", "remove", "minio").stderr
    assert json.loads(site.lading("credential", "list", "--json").stdout) == []


def test_mistakes(site: Site) -> None:
    for arguments, code in (
        (("set", "x", "s3://b"), 2),
        (("set", "x", "https://h/", "--key", "u", "--region", "eu"), 2),
        (("set", "x", "keep:a", "--key", "u"), 1),
        (("set", "x", "https://h/", "--key", "u"), 1),
        (("remove", "none"), 1),
    ):
        assert site.lading("credential", *arguments, code=code, stdin=b"").stdout == ""
