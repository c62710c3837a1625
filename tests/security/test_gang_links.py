"""The ranks of a gang are hostile: links in the place of what the conductor writes, archives that
are traps.
"""

from __future__ import annotations

import io
import os
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lading.supervisor.gang.gang_output import GangOutput
from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster

CONFIG = "Local: {{VCPUs: 4, RAM: 4GiB}}\nContainers: {{StopGracePeriod: 2s, {engine}}}\n"
# Each round leaves another kind of link where the conductor would write, and lines for it to write.
SCRIPT = """
round=0
while [ $round -lt 12 ]; do
  for target in ranks ranks/0 ranks/0/stdout.txt ranks/0/results; do
    rm -rf ranks; mkdir -p "$(dirname $target)"
    case $target in
      ranks) ln -s {host} ranks;;
      ranks/0) ln -s {host}/0 ranks/0;;
      ranks/0/results) ln -s {host}/empty ranks/0/results;;
      *) ln -s {host}/0/stdout.txt $target;;
    esac
    echo "line of $WORLD_RANK in round $round"; sleep 0.1
  done
  round=$((round + 1))
done
rm -rf ranks
{last}
"""


@pytest.fixture(scope="module", params=["native", "docker", "podman"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    need_root()
    for program in ("sshd", "ip", "crun"):
        need_program(program)
    engine = f"RuntimeEngine: {request.param}"
    if request.param == "docker":
        engine += f", DockerSocket: {request.getfixturevalue('docker_daemon').socket}"
    elif request.param == "podman":
        engine += f", PodmanSocket: {request.getfixturevalue('podman_service').socket}"
    with running_cluster(
        tmp_path_factory.mktemp("gang") / "data", CONFIG.format(engine=engine)
    ) as running:
        running.lading("image", "hpc")
        yield running


@pytest.mark.system
@pytest.mark.attack(
    "ranks of a gang swap /out/ranks, its directories and files for links to files of the host"
)
def test_the_conductor_follows_no_link(cluster: Cluster, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "0").mkdir(parents=True)
    (host / "empty").mkdir()
    (host / "0" / "stdout.txt").write_text("of the host\n")
    for last in ("true", f"mkdir ranks; ln -s {host}/0 ranks/0"):
        out = tmp_path / ("out" if last == "true" else "other")
        gang = (
            "hpc",
            "run",
            "--size",
            "2",
            "--launcher",
            "all",
            "--no-reuse",
            "--output",
            str(out),
        )
        script = SCRIPT.format(host=host, last=last)
        done = cluster.lading(*gang, "--", "sh", "-c", script, check=last == "true")
        assert "line of 1 in round 11" in done.stdout
        assert (host / "0" / "stdout.txt").read_text() == "of the host\n"
        assert sorted(str(one.relative_to(host)) for one in host.rglob("*")) == [
            "0",
            "0/stdout.txt",
            "empty",
        ]
        if last == "true":
            # What they wrote is there nevertheless, whole.
            for rank in range(2):
                kept = (tmp_path / f"out/ranks/{rank}/stdout.txt").read_text().splitlines()
                assert kept == [
                    f"line of {rank} in round {number}" for number in range(12) for _ in range(4)
                ]


def _member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, size
    return made


def _traps(host: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in (
            "../up",
            "a/../../up",
            f"{host}/absolute",
            "away/through",
            "same/through",
            ".",
        ):
            archive.addfile(_member(name, size=4), io.BytesIO(b"trap"))
        for name, target in (
            ("l1", "/etc/shadow"),
            ("l2", "../.."),
            ("d/l3", "../../x"),
            ("l4", "d/../../x"),
        ):
            archive.addfile(_member(name, tarfile.SYMTYPE, target))
        archive.addfile(_member("h1", tarfile.LNKTYPE, "away/secret"))
        archive.addfile(_member("h2", tarfile.LNKTYPE, "../host/secret"))
        archive.addfile(_member("h3", tarfile.LNKTYPE, str(host / "secret")))
        for name, kind in (
            ("disk", tarfile.BLKTYPE),
            ("mem", tarfile.CHRTYPE),
            ("pipe", tarfile.FIFOTYPE),
        ):
            device = _member(name, kind)
            device.devmajor, device.devminor = 1, 1
            archive.addfile(device)
        # Links that are made first and gone through later.
        archive.addfile(_member("inner", tarfile.SYMTYPE, "made"))
        archive.addfile(_member("made", tarfile.DIRTYPE))
        archive.addfile(_member("inner/file", size=4), io.BytesIO(b"trap"))
        archive.addfile(_member("/".join("d" * 300), size=0))
        set_user = _member("setuid", size=4)
        set_user.mode, set_user.uid = 0o6777, 12345
        archive.addfile(set_user, io.BytesIO(b"good"))
    return made.getvalue()


@pytest.fixture
def gang(tmp_path: Path) -> GangOutput:
    for name in ("out", "spool", "host"):
        (tmp_path / name).mkdir()
    (tmp_path / "host" / "secret").write_text("of the host")
    return GangOutput(tmp_path / "spool", str(tmp_path / "out"), 2)


@pytest.mark.attack(
    "a rank on another machine sends an archive with links, devices and names that lead out"
)
def test_nothing_of_an_archive_leads_out(gang: GangOutput, tmp_path: Path) -> None:
    out, host = tmp_path / "out", tmp_path / "host"
    (out / "away").symlink_to(host)
    (out / "same").symlink_to(".")
    (gang.spool / "1.tar").write_bytes(_traps(host))
    said = gang.merge()
    assert all(one.startswith("rank 1: ") and "left out" in one for one in said)
    assert len(said) == 18
    assert [one.name for one in host.iterdir()] == ["secret"]
    assert (host / "secret").stat().st_nlink == 1
    assert {one.name for one in out.iterdir()} == {"away", "same", "inner", "made", "setuid"}
    assert list((out / "made").iterdir()) == []
    assert (out / "setuid").stat().st_mode & 0o7777 == 0o755
    assert (out / "setuid").stat().st_uid == os.geteuid()


def _endless_header() -> Iterator[bytes]:
    while True:
        yield _member("x", tarfile.GNUTYPE_LONGNAME, size=512).tobuf(tarfile.GNU_FORMAT) + bytes(
            512
        )


def _huge_header() -> Iterator[bytes]:
    yield _member("x", tarfile.XHDTYPE, size=1 << 33).tobuf(tarfile.GNU_FORMAT)
    while True:
        yield bytes(1 << 20)


def _sparse_map() -> Iterator[bytes]:
    keys = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    member = _member("x", size=1 << 33)
    member.pax_headers = keys
    yield member.tobuf(tarfile.PAX_FORMAT)
    yield b"4000000000\n"
    while True:
        yield b"0\n" * (1 << 19)


def _many_members() -> Iterator[bytes]:
    one = _member("x", tarfile.FIFOTYPE).tobuf(tarfile.GNU_FORMAT)
    while True:
        yield one * 2048


def _many_globals() -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        headers = {f"k{number}": "v" * 30000}
        yield tarfile.TarInfo.create_pax_global_header(headers)


@pytest.mark.attack("a rank on another machine sends an archive whose headers take all memory")
@pytest.mark.parametrize(
    "stream",
    [_endless_header, _huge_header, _sparse_map, _many_members, _many_globals],
    ids=lambda one: one.__name__.strip("_"),
)
def test_an_archive_takes_little_memory(
    gang: GangOutput, stream: Callable[[], Iterator[bytes]]
) -> None:
    with (gang.spool / "1.tar").open("wb") as file:
        for chunk in stream():
            if file.tell() > 8 << 20:
                break
            file.write(chunk)
    tracemalloc.start()
    said = gang.merge()
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()
    assert 1 <= len(said) <= 52
    assert "not all of its output could be had" in " ".join(said) or "more of such" in said[-1]


@pytest.mark.attack(
    "a rank on another machine sends files whose size is a lie, or larger than any disk"
)
def test_sizes_are_not_believed(gang: GangOutput, tmp_path: Path) -> None:
    hole = _member("hole", tarfile.GNUTYPE_SPARSE)
    header = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (1 << 30)
    header[148:156] = b"%06o\0 " % sum([*header[:148], *b" " * 8, *header[156:512]])
    own = _member("own")
    own.pax_headers = {"LADING.offset": "0", "LADING.size": str(1 << 62)}
    outside = _member("outside", size=4)
    outside.pax_headers = {"LADING.offset": "-4", "LADING.size": "4"}
    data = (
        bytes(header)
        + own.tobuf(tarfile.PAX_FORMAT)
        + outside.tobuf(tarfile.PAX_FORMAT)
        + bytes(512)
    )
    (gang.spool / "1.tar").write_bytes(data)
    said = gang.merge()
    assert [one.split(":")[1].split()[0] for one in said] == ["hole", "own", "not"]
    (gang.spool / "1.tar").write_bytes(
        _member("large", size=1 << 40).tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    )
    assert "not all of its output" in gang.merge()[0]
    assert sum(one.stat().st_blocks for one in (tmp_path / "out").iterdir()) * 512 <= 2 << 20
