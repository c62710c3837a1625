"""What ranks put out becomes one directory; hostile archives are in tests/security."""

from __future__ import annotations

import errno
import io
import os
import socket
from pathlib import Path

import pytest

from lading.process.cancellation import Stopped
from lading.supervisor.gang.gang_output import GangOutput
from lading.supervisor.gang.output_archive import send


@pytest.fixture
def gang(tmp_path: Path) -> GangOutput:
    for name in ("out", "spool", "sent"):
        (tmp_path / name).mkdir()
    return GangOutput(tmp_path / "spool", str(tmp_path / "out"), 3)


def _send(gang: GangOutput, rank: int, source: Path) -> bytes:
    made = io.BytesIO()
    send(str(source), made)
    (gang.spool / f"{rank}.tar").write_bytes(made.getvalue())
    return made.getvalue()


def test_the_output_of_another_machine_comes_as_it_is(gang: GangOutput, tmp_path: Path) -> None:
    sent, out = tmp_path / "sent", tmp_path / "out"
    (sent / "ranks/1/results").mkdir(parents=True)
    (sent / "ranks/1/results/r").write_text("result")
    (sent / "program").write_text("x")
    (sent / "program").chmod(0o755)
    (sent / "link").symlink_to("ranks/1")
    (sent / "empty").touch()
    (sent / os.fsdecode(b"\xff\n")).write_text("any name")
    os.link(sent / "program", sent / "same")
    os.utime(sent / "empty", (5, 5))
    _send(gang, 1, sent)
    assert gang.merge() == ()
    assert (out / "link/results/r").read_text() == "result"
    assert (out / "program").stat().st_mode & 0o7777 == 0o755
    assert (out / "program").samefile(out / "same")
    assert (out / "empty").stat().st_mtime == 5
    assert (out / os.fsdecode(b"\xff\n")).read_text() == "any name"
    assert list(gang.spool.iterdir()) == []


def test_what_a_lower_rank_has_stays(gang: GangOutput, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "both").write_text("of rank 0")
    for rank in (2, 1):
        sent = tmp_path / f"sent{rank}"
        sent.mkdir()
        for name in ("both", "later"):
            (sent / name).write_text(f"of rank {rank}")
        with (sent / "both").open("ab") as file:
            file.truncate(1 << 20)
        _send(gang, rank, sent)
    assert gang.merge() == ()
    assert {one.name: one.read_text() for one in out.iterdir()} == {
        "both": "of rank 0",
        "later": "of rank 1",
    }


def test_holes_stay_holes(gang: GangOutput, tmp_path: Path) -> None:
    sent, out = tmp_path / "sent", tmp_path / "out"
    with (sent / "sparse").open("wb") as file:
        for place in (1 << 20, 3 << 30):
            file.seek(place)
            file.write(b"data")
        file.truncate(1 << 40)
    with (sent / "hole").open("wb") as file:
        file.truncate(1 << 40)
    (sent / "sparse").chmod(0o600)
    assert len(_send(gang, 1, sent)) < 1 << 20
    assert gang.merge() == ()
    for name in ("sparse", "hole"):
        found = (out / name).stat()
        assert (found.st_size, found.st_mode & 0o777) == (
            1 << 40,
            0o600 if name == "sparse" else 0o644,
        )
        assert found.st_blocks * 512 < 1 << 20
    with (out / "sparse").open("rb") as file:
        file.seek(3 << 30)
        assert file.read(5) == b"data\0"


def test_streams_take_their_place(gang: GangOutput, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "ranks/0").mkdir(parents=True)
    (out / "ranks/0/stdout.txt").symlink_to(tmp_path / "host")
    (out / "ranks/1/stdout.txt").mkdir(parents=True)
    (out / "ranks/2/results").mkdir(parents=True)
    (tmp_path / "host").write_text("of the host")
    for name in ("0.stdout", "0.stderr", "1.stdout"):
        (gang.spool / name).write_text(name)
    assert gang.merge() == ("rank 1: ranks/1/stdout.txt is not in the output: Is a directory",)
    assert (tmp_path / "host").read_text() == "of the host"
    assert (out / "ranks/0/stdout.txt").read_text() == "0.stdout"
    assert not (out / "ranks/0/stdout.txt").is_symlink()
    assert sorted(one.name for one in (out / "ranks").iterdir()) == ["0", "1"]


def test_streams_come_from_another_file_system(
    gang: GangOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", refuse)
    (gang.spool / "0.stdout").write_text("line\n")
    (tmp_path / "out/ranks/0").mkdir(parents=True)
    (tmp_path / "out/ranks/0/stdout.txt").symlink_to("/etc/passwd")
    assert gang.merge() == ()
    assert (tmp_path / "out/ranks/0/stdout.txt").read_text() == "line\n"


def test_an_archive_that_breaks_off_is_told(gang: GangOutput, tmp_path: Path) -> None:
    (tmp_path / "sent/a").write_text("x" * 9000)
    whole = _send(gang, 1, tmp_path / "sent")
    for end in (0, 3000, 512 + 9216):
        (gang.spool / "1.tar").write_bytes(whole[:end])
        (said,) = gang.merge()
        assert said.startswith("rank 1: not all of its output could be had")
        (tmp_path / "out/a").unlink(missing_ok=True)


def test_many_faults_are_a_few_sentences(gang: GangOutput, tmp_path: Path) -> None:
    for number in range(60):
        with socket.socket(socket.AF_UNIX) as one:
            os.mkfifo(tmp_path / f"sent/{number}")
            del one
    _send(gang, 1, tmp_path / "sent")
    said = gang.merge()
    assert (len(said), said[-1]) == (51, "and 10 more of such")


def test_it_can_be_stopped(gang: GangOutput, tmp_path: Path) -> None:
    (tmp_path / "sent/a").write_text("x")
    _send(gang, 1, tmp_path / "sent")
    assert gang.merge(stop=lambda: True) == ("stopped before the output of all ranks was merged",)
    with pytest.raises(Stopped):
        send(str(tmp_path / "sent"), io.BytesIO(), stop=lambda: True)


def test_an_output_that_is_not_there_is_told(tmp_path: Path) -> None:
    (said,) = GangOutput(tmp_path, str(tmp_path / "none"), 2).merge()
    assert said.startswith("the output of the ranks cannot be brought together")
