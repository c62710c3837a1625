"""The image of submitted workflows, with programs of our own in place of apt, pip and
mmdebstrap.
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lading.client.images.archive import NormalImage
from lading.client.images.runner import (
    DEFAULT_VERSION,
    BuildHost,
    build_runner,
    image_name,
    make_run,
    package_sources,
)
from lading.client.servers.environment import cache_directory
from lading.core.errors import Invalid, Unavailable

TARGETS = """http://mirror.test/debian/|trixie|main
http://mirror.test/debian/|trixie-updates|main
http://mirror.test/debian/|trixie|main
http://mirror.test/others/|trixie|stable
http://mirror.test/unknown/|cloud-trixie|main
"""
LINES = (
    "deb http://mirror.test/debian/ trixie main\n"
    "deb http://mirror.test/debian/ trixie-updates main\n"
)


@pytest.fixture
def host(tmp_path: Path) -> BuildHost:
    """A Debian machine with the programs that make the image."""
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/os-release").write_text("ID=debian\nVERSION_CODENAME=trixie\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("mmdebstrap", "apt-get"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    environ = {"PATH": str(programs), "HTTP_PROXY": "http://proxy.test", "PYTHONPATH": "/mine"}
    return BuildHost(root=tmp_path / "root", environ=environ, architecture="amd64")


class Programs:
    """Answers as the programs do, and remembers what was asked of mmdebstrap."""

    def __init__(self, *, settings: str = "", targets: str = TARGETS) -> None:
        self.settings, self.targets = settings, targets
        self.made: list[list[str]] = []
        self.stdin = self.pins = ""
        self.environ: Mapping[str, str] = {}

    def __call__(
        self, command: Sequence[str], *, stdin: str = "", environ: Mapping[str, str]
    ) -> str:
        if command[0] == "apt-get":
            return self.targets
        if command[0] == sys.executable:
            return self.settings
        self.made.append(list(command))
        self.stdin, self.environ = stdin, environ
        pins = next(one for one in command if one.endswith("/tmp/pins.txt"))
        self.pins = Path(pins.split(" ")[1]).read_text()
        with tarfile.open(command[-2], "w") as root:
            root.addfile(tarfile.TarInfo("bin"), io.BytesIO())
        return ""


def build(
    host: BuildHost, tmp_path: Path, run: Programs, version: str = DEFAULT_VERSION
) -> NormalImage:
    folder = tmp_path / f"build-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    return build_runner(folder, version=version, cache=tmp_path / "cache", host=host, run=run)


def test_an_image_of_a_root_and_an_environment(host: BuildHost, tmp_path: Path) -> None:
    run = Programs(
        settings="global.index-url='http://index.test'\n:env:.cert='/a.pem'\nglobal.quiet='1'\n"
    )
    image = build(host, tmp_path, run)
    assert run.stdin == LINES
    assert "arvados-cwl-runner==3.2.1" in run.pins
    (command,) = run.made
    assert any(one.startswith("--include=bash,bsdextrautils,") for one in command)
    assert "--customize-hook=upload /a.pem /tmp/certificates.pem" in command
    given = {
        name: value
        for name, value in run.environ.items()
        if name.startswith(("PIP", "HTTP", "PYTHON"))
    }
    assert given == {
        "PIP_INDEX_URL": "http://index.test", "PIP_CERT": "/tmp/certificates.pem",
        "PIP_REQUIRE_HASHES": "1", "HTTP_PROXY": "http://proxy.test",
    }  # fmt: skip
    with tarfile.open(image.path) as archive:
        config = archive.extractfile(f"{image.digest.removeprefix('sha256:')}.json")
        assert config is not None
        environment = msgspec.json.decode(config.read())["config"]["Env"]
    assert environment[0].startswith("PATH=/opt/arvados/bin:/usr/local/sbin:")
    assert image_name(DEFAULT_VERSION) == "arvados/jobs:3.2.1"


def test_an_image_is_kept_until_what_it_is_made_of_changes(host: BuildHost, tmp_path: Path) -> None:
    run = Programs()
    images = [build(host, tmp_path, run) for _ in range(2)]
    assert images[0] == images[1]
    assert images[0].path.stat().st_size == images[0].size
    assert len(run.made) == 1
    for mirror in ("one.test", "two.test", "three.test"):
        run.targets = TARGETS.replace("mirror.test", mirror)
        build(host, tmp_path, run)
    assert len(run.made) == 4
    assert len(list((tmp_path / "cache").glob("runner-*/"))) == 2, "older ones are removed"
    build(host, tmp_path, run, "3.1.2")
    assert run.pins == "arvados-cwl-runner==3.1.2\n"
    assert "PIP_REQUIRE_HASHES" not in run.environ


def test_one_that_was_not_made_is_made_anew(host: BuildHost, tmp_path: Path) -> None:
    class Failing(Programs):
        def __call__(
            self, command: Sequence[str], *, stdin: str = "", environ: Mapping[str, str]
        ) -> str:
            super().__call__(command, stdin=stdin, environ=environ)
            if self.made:
                raise Unavailable("no packages")
            return self.targets

    with pytest.raises(Unavailable, match="no packages"):
        build(host, tmp_path, Failing())
    assert build(host, tmp_path, Programs()).path.exists()


def test_a_machine_that_cannot_make_it(host: BuildHost, tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match=r"--version \.\./x: not a version; write for example 3\.2\.1"
    ):
        build(host, tmp_path, Programs(), "../x")
    with pytest.raises(Invalid, match="mmdebstrap is not on PATH, .* apt install mmdebstrap"):
        build(replace(host, environ={"PATH": "/nowhere"}), tmp_path, Programs())
    (tmp_path / "programs/apt-get").unlink()
    with pytest.raises(
        Invalid, match="apt-get is not on PATH; the image is made on Debian or Ubuntu"
    ):
        build(host, tmp_path, Programs())


def test_the_sources_are_those_of_the_distribution(host: BuildHost) -> None:
    keyring = host.root / "usr/share/keyrings/debian-archive-keyring.gpg"
    keyring.parent.mkdir(parents=True)
    keyring.touch()
    assert package_sources(host, Programs()).startswith(
        f"deb [signed-by={keyring}] http://mirror.test/debian/ trixie"
    )
    with pytest.raises(Invalid, match="no source of packages of this machine"):
        package_sources(host, Programs(targets="http://mirror.test/others/|stable|main\n"))
    (host.root / "etc/os-release").unlink()
    with pytest.raises(Invalid, match="no source of packages of this machine"):
        package_sources(host, Programs())


def test_a_program_tells_of_its_progress_and_why_it_fails() -> None:
    told: list[str] = []
    run = make_run(told.append)
    environ = {"WORD": "seen"}
    script = (
        "import os, sys; print(input() + os.environ['WORD']); "
        "print('I: half way\\nI: using /tmp/x', file=sys.stderr)"
    )
    assert run([sys.executable, "-c", script], stdin="line\n", environ=environ) == "lineseen\n"
    assert told == ["half way"]
    for said, shown in (
        ("E: no such package\nlater", "E: no such package"),
        ("first\nlast\n", "last"),
    ):
        with pytest.raises(Unavailable, match=f"was not made: {shown}; try again"):
            run([sys.executable, "-c", f"import sys; sys.exit({said!r})"], environ={})
    with pytest.raises(Unavailable, match="exit code 3"):
        run([sys.executable, "-c", "import sys; sys.exit(3)"], environ={})


def test_where_images_are_kept() -> None:
    assert cache_directory({"HOME": "/home/a"}) == Path("/home/a/.cache/lading")
    assert cache_directory({"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}) == Path("/c/lading")
