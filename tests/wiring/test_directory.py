"""The data directory: secrets made once, files whole and private, one server at a time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lading.client.servers.environment import find_lender
from lading.core.errors import Conflict, Invalid
from lading.wiring.directory import (
    DataDirectory,
    make_secrets,
    write_private,
)
from tests.reality import need_root

ENTROPY = bytes(range(256)) * 2


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    made.prepare()
    return made


def test_secrets_are_made_once(directory: DataDirectory) -> None:
    first = directory.secrets(entropy=ENTROPY)
    assert directory.secrets(entropy=os.urandom(400)) == first
    assert (directory.root / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_every_secret_is_another() -> None:
    made = make_secrets(os.urandom(400))
    texts = [
        made.system_root_token,
        made.management_token,
        made.blob_signing_key,
        made.admin_token_secret,
    ]
    assert len({*texts, made.dispatch_token_secret}) == 5
    assert made.dispatch_token.startswith(f"v2/{made.cluster_id}-gj3su-")


def test_too_little_entropy_is_refused() -> None:
    with pytest.raises(ValueError, match="400"):
        make_secrets(b"few")


def test_damaged_secrets_are_not_replaced(directory: DataDirectory) -> None:
    (directory.root / "secrets.json").write_text("{")
    with pytest.raises(Invalid, match="restore"):
        directory.secrets(entropy=ENTROPY)


def test_only_one_serves_a_directory(directory: DataDirectory) -> None:
    held = directory.claim()
    with pytest.raises(Conflict, match="another 'lading up'"):
        directory.claim()
    os.close(held)
    os.close(directory.claim())


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="choose another --data"):
        DataDirectory(tmp_path / "file" / "data").prepare()


def test_the_configuration_file_and_the_start_are_merged(directory: DataDirectory) -> None:
    secrets = directory.secrets(entropy=ENTROPY)
    (directory.root / "config.yml").write_text("Local: {VCPUs: 7}\n")
    config = directory.config(secrets, address="127.0.0.1:1")
    assert (config.ClusterID, config.Local.VCPUs) == (secrets.cluster_id, 7)
    assert config.ExternalURL == "https://127.0.0.1:1/"


def test_the_env_file_is_private_and_can_be_sourced(directory: DataDirectory) -> None:
    secrets = directory.secrets(entropy=ENTROPY)
    directory.write_env(secrets, address="127.0.0.1:1")
    assert directory.env.stat().st_mode & 0o777 == 0o600
    assert f"export ARVADOS_API_TOKEN={secrets.admin_token}\n" in directory.env.read_text()
    assert (
        find_lender({"LADING_DATA": str(directory.root)}, Path("/none"), "127.0.0.1:1")
        == directory.lender
    )
    asked = f'. {directory.env}; printf %s "$LADING_DATA"'
    assert subprocess.run(
        ["sh", "-c", asked], capture_output=True, text=True, check=True
    ).stdout == str(directory.root)


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, b"one")
    write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_places(directory: DataDirectory) -> None:
    places = (
        directory.socket,
        directory.database,
        directory.certificate,
        directory.key,
        directory.env,
    )
    assert all(place.parent == directory.root for place in places)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_directory_that_is_open_to_others_is_closed(tmp_path: Path) -> None:
    root, elsewhere, told = tmp_path / "data", tmp_path / "elsewhere", list[str]()
    for folder in (root, root / "log", root / "live"):
        folder.mkdir()
    kept = [root / "db.sqlite", root / "log" / "server.log", root / "config.yml"]
    for file in (*kept, elsewhere):
        file.write_text("")
        file.chmod(0o644)
    (root / "link").symlink_to(elsewhere)
    root.chmod(0o750)
    DataDirectory(root).prepare(say=told.append)
    assert told == [f"{root}: was open to other users (mode 750); only its owner can read it now"]
    assert [_mode(file) for file in (root, root / "log", *kept, elsewhere)] == [
        0o700, 0o700, 0o600, 0o600, 0o644, 0o644,
    ]  # fmt: skip
    (root / "db.sqlite").chmod(0o640)
    DataDirectory(root).prepare(say=told.append)
    assert told[1:] == [
        f"{root}: was open to other users (db.sqlite: mode 640); only its owner can read it now"
    ]
    DataDirectory(root).prepare(say=told.append)
    assert len(told) == 2


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    need_root()
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(Invalid, match="belongs to user 65534"):
        DataDirectory(tmp_path).prepare()
