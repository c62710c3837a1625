from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from lading.core.errors import Invalid, Unavailable
from lading.dispatch.fleets.cloud.ssh_connection import (
    Shell,
    SshAddress,
    Unverified,
    keep_key,
    public_text,
    read_key,
)

from .ssh import ssh_server


async def test_commands_have_exit_codes_words_and_input(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 700_000)
    async with ssh_server() as server, Shell(server.target, timeout=10.0) as shell:
        done = await shell.run("echo out; echo first >&2; echo last >&2; exit 3")
        assert (done.code, done.out, done.words) == (3, b"out\n", "last")
        assert (await shell.run("wc -c", data=tmp_path / "data")).out.strip() == b"700000"
        assert (await shell.run("true")).words == ""


async def test_a_command_that_hangs_is_given_up() -> None:
    async with ssh_server() as server, Shell(server.target, timeout=10.0) as shell:
        with pytest.raises(Unavailable, match="no answer in time at: exec sleep 60"):
            await shell.run("exec sleep 60", timeout=0.05)


async def test_the_secret_decides_whom_to_believe(tmp_path: Path) -> None:
    place = tmp_path / "secret"
    async with ssh_server() as server, Shell(server.target, timeout=10.0) as shell:
        with pytest.raises(Unavailable, match="its secret cannot be read yet"):
            await shell.verify("abc", path=str(place))
        place.write_text("abd")
        with pytest.raises(Unverified, match="does not know the secret"):
            await shell.verify("abc", path=str(place))
        place.write_text("abc")
        await shell.verify("abc", path=str(place))


async def test_another_host_key_is_refused_once_one_is_pinned() -> None:
    async with ssh_server() as server:
        async with Shell(server.target, timeout=10.0) as shell:
            pinned = shell.host_key
        async with Shell(replace(server.target, pinned=pinned), timeout=10.0) as shell:
            assert shell.host_key == pinned
        other = public_text(asyncssh.generate_private_key("ssh-ed25519"))
        with pytest.raises(Unverified, match="its ssh host key is not the one it had before"):
            async with Shell(replace(server.target, pinned=other), timeout=10.0):
                pass


async def test_a_wrong_key_and_nobody_there_are_said() -> None:
    async with ssh_server() as server:
        wrong = replace(server.target, key=asyncssh.generate_private_key("ssh-ed25519"))
        with pytest.raises(
            Unavailable,
            match=r"ssh does not let root in with the key of Containers\.DispatchPrivate",
        ):
            async with Shell(wrong, timeout=10.0):
                pass
        closed = server.target
    with pytest.raises(Unavailable, match="no ssh connection"):
        async with Shell(closed, timeout=10.0):
            pass


def test_others_than_root_use_sudo() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    assert (
        Shell(SshAddress(address="a", port=22, user="crunch", key=key), timeout=1.0).sudo
        == "sudo -n "
    )
    assert Shell(SshAddress(address="a", port=22, user="root", key=key), timeout=1.0).sudo == ""


def test_a_key_is_kept_where_nobody_else_reads_it(tmp_path: Path) -> None:
    first = keep_key(tmp_path / "deep/key")
    assert public_text(keep_key(tmp_path / "deep/key")) == public_text(first)
    assert (tmp_path / "deep/key").stat().st_mode & 0o777 == 0o600
    assert public_text(read_key(first.export_private_key().decode())) == public_text(first)


def test_what_is_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"DispatchPrivateKey: a text is no private key"):
        read_key("hush hush")
    with pytest.raises(Invalid, match=r"DispatchPrivateKey: file://.*/none is no private key"):
        read_key(f"file://{tmp_path}/none")
