"""Dispatchers that join from elsewhere; that they work is shown in tests/system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.core.errors import Conflict, Invalid
from lading.wiring.directory import DataDirectory
from lading.wiring.further_dispatcher import Membership, check, invite, read_membership
from lading.wiring.further_dispatcher import run_further as main

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


def test_a_membership_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "join"
    file.write_text(f'{{"api": "https://h:1", "token": "{TOKEN}", "certificate": "PEM"}}')
    assert read_membership(file) == Membership(api="https://h:1", token=TOKEN, certificate="PEM")


@pytest.mark.parametrize(
    ("membership", "said"),
    [
        (Membership(api="http://h:1", token=TOKEN), "write https://"),
        (Membership(api="https://h:1", token="secret"), "lading admin dispatcher-token"),
    ],
)
def test_what_cannot_be_used_is_refused(membership: Membership, said: str) -> None:
    with pytest.raises(Invalid, match=said) as error:
        check(membership)
    assert "secret" not in str(error.value).lower().replace("uuid/secret", "")


def test_a_file_that_is_no_membership(tmp_path: Path) -> None:
    (tmp_path / "join").write_text("{}")
    for name in ("join", "absent"):
        with pytest.raises(Invalid, match="not a file of"):
            read_membership(tmp_path / name)


def test_nobody_is_invited_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no server keeps its data here"):
        invite(DataDirectory(tmp_path), tmp_path / "join")
    (tmp_path / "join").touch()
    with pytest.raises(Invalid, match="is there already"):
        invite(DataDirectory(tmp_path), tmp_path / "join")


def test_an_invitation_is_private(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    directory.write_env(directory.secrets(entropy=os.urandom(400)), address="h:1")

    asked = []

    async def make(_: DataDirectory, api: str, scopes: tuple[str, ...]) -> Membership:
        asked.append(scopes)
        return Membership(api=api, token=TOKEN)

    assert invite(directory, tmp_path / "join", make=make).api == "https://h:1"
    assert (tmp_path / "join").stat().st_mode & 0o777 == 0o600
    assert read_membership(tmp_path / "join").token == TOKEN
    invite(directory, tmp_path / "arvados", for_arvados=True, make=make)
    assert set(asked[1]) - set(asked[0]) == {
        "GET /arvados/v1/users/current", "POST /arvados/v1/collections",
        "PUT /arvados/v1/collections/", "POST /arvados/v1/connect/",
    }  # fmt: skip
    with pytest.raises(Invalid, match="cannot be written"):
        invite(directory, tmp_path / "no" / "join", make=make)


def test_a_data_directory_serves_one(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.prepare()
    lock = directory.claim()
    with pytest.raises(Conflict):
        main(
            Membership(api="https://h:1", token=TOKEN), fleet="local", data=tmp_path, config=None,
            on_ready=lambda _: None,
        )  # fmt: skip
    os.close(lock)


def test_an_unknown_fleet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no fleet 'moon'"):
        main(
            Membership(api="https://h:1", token=TOKEN, certificate=""), fleet="moon", data=tmp_path,
            config=None, on_ready=lambda _: None,
        )  # fmt: skip
