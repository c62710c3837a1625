"""Two users of one machine do not meet: each has a site, with files and a port of its own."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from lading.testing.ordinary_user import OrdinaryUser, ordinary_user
from tests.reality import need, need_root
from tests.system.cluster import LADING

pytestmark = pytest.mark.system


class Account:
    """A user who keeps the site on a scratch disk that all share."""

    def __init__(self, user: OrdinaryUser, scratch: Path) -> None:
        self.user = user
        self.data = scratch / str(user.number) / "lading"
        # As an administrator does, who lets all users make directories there.
        self.data.parent.mkdir(mode=0o755)
        os.chown(self.data.parent, user.number, user.number)
        # Temporary files of all users lie in one directory, too.
        self.variables = {"LADING_DATA": str(self.data), "TMPDIR": str(scratch)}

    def lading(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run([LADING, *arguments], **variables)

    def run(self, command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.user.start(
            command, environment=self.variables | variables, stderr=subprocess.PIPE
        )
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(command, process.returncode, out.decode(), err.decode())

    @property
    def address(self) -> str:
        """The address of its site."""
        return str(json.loads((self.data / "up.json").read_text())["address"])


@pytest.fixture
def accounts() -> Iterator[tuple[Account, Account]]:
    need_root()
    is_open = all(path.stat().st_mode & 0o001 for path in Path(LADING).resolve().parents)
    need(is_open, "an installation that every user can read")
    with tempfile.TemporaryDirectory(prefix="lading-scratch-", dir="/var/tmp") as scratch:
        os.chmod(scratch, 0o1777)  # noqa: PTH101
        with ExitStack() as users:
            made = [
                Account(users.enter_context(ordinary_user(offset)), Path(scratch))
                for offset in (0, 1)
            ]
            yield made[0], made[1]
            for account in made:
                account.lading("down")


def _open_to_others(directory: Path) -> list[str]:
    """Files below a directory that other users may read or write, in directories that they may
    pass.
    """
    found = []
    for folder, folders, names in os.walk(directory):
        here = Path(folder)
        folders[:] = [one for one in folders if (here / one).lstat().st_mode & 0o005]
        for name in (*folders, *names):
            status = (here / name).lstat()
            if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o006:
                found.append(str(here / name))
    return found


def test_two_users_work_at_the_same_time(accounts: tuple[Account, Account]) -> None:
    for account in accounts:
        notes = account.user.home / "notes.txt"
        notes.write_text(f"of user {account.user.number}\n")
        done = account.lading("put", "--name", "notes", str(notes))
        assert done.returncode == 0, done.stderr
        assert "started your site" in done.stderr
    assert accounts[0].address != accounts[1].address
    for account in accounts:
        shown = account.lading("cat", "notes/notes.txt").stdout
        assert shown == f"of user {account.user.number}\n"
        assert account.address in account.lading("open", "--print").stdout
        # All that it has made belongs to it, and only the directory that the administrator made is
        # open to others.
        made = [path.lstat() for path in account.data.rglob("*")]
        assert {one.st_uid for one in made} == {account.user.number}
        assert account.data.stat().st_mode & 0o077 == 0
        assert _open_to_others(account.data.parent) == []
    scratch = accounts[0].data.parents[1]
    assert [path for path in scratch.iterdir() if not path.name.isdigit()] == []


def test_the_site_of_another_user_is_closed(accounts: tuple[Account, Account]) -> None:
    first, second = accounts
    assert first.lading("request", "list").returncode == 0
    there = {"LADING_DATA": str(first.data)}
    for command in (("request", "list"), ("up",), ("down",), ("put", "/etc/hostname")):
        done = second.lading(*command, **there)
        assert done.returncode != 0, command
        assert done.stderr.startswith("lading: "), done.stderr
        assert "Traceback" not in done.stderr
    assert second.run(["cat", str(first.data / "env")]).returncode != 0
    assert first.lading("request", "list").returncode == 0


def test_a_token_is_not_sent_to_who_took_the_port_of_a_site(
    accounts: tuple[Account, Account],
) -> None:
    account, _ = accounts
    account.lading("request", "list")
    address = account.address
    account.lading("down")
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as another:
        another.setblocking(False)
        done = account.lading("request", "list")
        assert done.returncode == 0, done.stderr
        assert account.address != address
        refused = account.lading("down")
        assert refused.returncode == 0
        done = account.lading("request", "list", LADING_START="never")
        assert "no server: your site does not run" in done.stderr
        with pytest.raises(BlockingIOError):
            another.accept()
