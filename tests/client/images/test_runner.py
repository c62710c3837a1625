"""The image of submitted workflows, with a package index and a machine of our own."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from lading.client.environment import cache_directory
from lading.client.images.elf import Linkage
from lading.client.images.from_host import Host
from lading.client.images.runner import (
    DEFAULT_VERSION,
    build_runner,
    environment,
    image_name,
    run_program,
)
from lading.core.errors import Invalid, Unavailable


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """This machine, with a `node` of its own and a linker that finds nothing to add."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("node", "sh"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    return Host(search=(str(programs), "/bin"), linker=lambda _loader, _path: Linkage(), architecture="amd64")


class Installer:
    """Makes what `venv` and `pip` would, and remembers what was asked of them."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.requirements = ""

    def __call__(self, command: list[str]) -> None:
        self.commands.append(command)
        if "venv" in command:
            place = Path(command[-1])
            (place / "bin").mkdir(parents=True)
            for name in ("arvados-cwl-runner", "cwltool", "arv-get", "arv-put"):
                (place / "bin" / name).write_text("#!/bin/sh\n")
                (place / "bin" / name).chmod(0o755)
        else:
            self.requirements = Path(command[-1]).read_text()


def test_an_image_that_the_program_finds_and_can_start(host: Host, tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    installer = Installer()
    image = build_runner(
        tmp_path / "image", version=DEFAULT_VERSION, cache=tmp_path / "cache", host=host, run=installer
    )
    with tarfile.open(tmp_path / "image/layer.tar") as layer:
        link = layer.getmember("usr/local/bin/arvados-cwl-runner")
        assert layer.getmember(link.linkname.lstrip("/")).isreg()
    assert image.path.exists()
    assert image_name(DEFAULT_VERSION) == "arvados/jobs:3.2.1"
    assert "--require-hashes" in installer.commands[1]
    assert "arvados-cwl-runner==3.2.1" in installer.requirements


def test_an_image_is_kept_until_the_machine_changes(host: Host, tmp_path: Path) -> None:
    images = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        images.append(
            build_runner(tmp_path / str(number), version="3.2.1", cache=tmp_path / "cache", host=host, run=Installer())
        )
    assert images[0] == images[1]
    assert images[0].path.stat().st_size == images[0].size
    assert not (tmp_path / "1/layer.tar").exists()
    (old,) = (tmp_path / "cache").glob("*/image-*")
    changed = replace(host, root=tmp_path / "root")
    (tmp_path / "root").symlink_to("/")
    old.rename(old.with_name("image-of-before"))
    (tmp_path / "2").mkdir()
    build_runner(tmp_path / "2", version="3.2.1", cache=tmp_path / "cache", host=changed, run=Installer())
    assert [one.name for one in (tmp_path / "cache").glob("*/image-*")] == [old.name]


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    installer = Installer()
    places = {environment("3.1.2", cache=tmp_path, run=installer) for _ in range(2)}
    assert len(places) == 1
    assert len(installer.commands) == 2
    assert installer.requirements == "arvados-cwl-runner==3.1.2\n"
    assert "--require-hashes" not in installer.commands[1]


def test_one_that_was_left_half_made_is_made_anew(tmp_path: Path) -> None:
    def fail(command: list[str]) -> None:
        Installer()(command)
        raise Unavailable("no index")

    with pytest.raises(Unavailable, match="no index"):
        environment("3.1.2", cache=tmp_path, run=fail)
    assert (environment("3.1.2", cache=tmp_path, run=Installer()) / "complete").exists()


def test_what_cannot_be_made_is_refused(host: Host, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="--version ../x: not a version; write for example 3.2.1"):
        build_runner(tmp_path, version="../x", cache=tmp_path, host=host, run=Installer())
    bare = replace(host, search=("/nowhere",))
    with pytest.raises(Invalid, match="node is not on PATH, .* apt install nodejs"):
        build_runner(tmp_path, version="3.2.1", cache=tmp_path, host=bare, run=Installer())


def test_a_program_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    run_program([sys.executable, "-c", ""])
    with pytest.raises(Unavailable, match="was not made: no such version; try again"):
        run_program([sys.executable, "-c", "import sys; sys.exit('first\\nno such version')"])
    with pytest.raises(Unavailable, match="exit code 3"):
        run_program([sys.executable, "-c", "import sys; sys.exit(3)"])

    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("pip", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(Unavailable, match="took longer than"):
        run_program(["pip"])


def test_where_environments_are_kept() -> None:
    assert cache_directory({"HOME": "/home/a"}) == Path("/home/a/.cache/lading")
    assert cache_directory({"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}) == Path("/c/lading")
