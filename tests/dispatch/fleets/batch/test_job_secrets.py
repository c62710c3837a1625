"""Assignments in files that only the dispatcher's user reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.batch.job_secrets import put_secrets, remove_secret


def test_only_their_user_reads_them(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    for content in ("first", "second"):
        put_secrets(str(directory), {"uuid": content})
    (path,) = directory.iterdir()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("second", 0o600)
    assert directory.stat().st_mode & 0o777 == 0o700
    for _ in range(2):
        remove_secret(str(directory), "uuid")
    assert list(directory.iterdir()) == []


def test_a_directory_that_others_read_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    directory.mkdir(mode=0o755)
    with pytest.raises(Unavailable, match="mode 0700"):
        put_secrets(str(directory), {"uuid": "secret"})
    assert list(directory.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="no secret can be written"):
        put_secrets(str(tmp_path / "file" / "secrets"), {"uuid": "secret"})
