"""Debian packages read from dpkg's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.client.images.host_files import DebianPackages, closure

_STATUS = """\
Package: tool
Status: install ok installed
Section: science
Depends: libc6 (>= 2.34), python3:any, awk | nosuch, libtool1 (>= 1)
Pre-Depends: dpkg (>= 1)

Package: python3
Status: install ok installed
Section: python
Depends: python3-minimal (= 3), libpython3-stdlib

Package: python3-minimal
Status: install ok installed
Section: python

Package: libpython3-stdlib
Status: install ok installed
Section: libs
Depends: libssl3

Package: libssl3
Status: install ok installed
Section: libs

Package: libtool1
Status: install ok installed
Section: oldlibs

Package: mawk
Status: install ok installed
Section: utils
Essential: yes
Provides: awk (= 1), posix-awk

Package: dpkg
Status: install ok installed
Section: admin

Package: gone
Status: deinstall ok config-files
Section: utils
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with these packages and merged /usr."""
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info.parent / "status").write_text(_STATUS)
    (info / "tool.list").write_text("/.\n/usr\n/usr/bin\n/usr/bin/tool\n")
    (info / "mawk.list").write_text("/bin\n/bin/mawk\n")
    (info / "libssl3:amd64.list").write_text("/usr/lib/libssl.so.3\n")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    return tmp_path


def test_owners_in_both_spellings(root: Path) -> None:
    packages = DebianPackages(root)
    assert packages.owner("/usr/bin/tool") == packages.owner("/bin/tool") == "tool"
    assert packages.owner("/usr/bin/mawk") == packages.owner("/bin/mawk") == "mawk"
    assert packages.owner("/usr/lib/libssl.so.3") == "libssl3"
    assert packages.owner("/usr/bin/other") is None
    assert packages.files("libssl3") == ["/usr/lib/libssl.so.3"]
    assert packages.files("nosuch") == []


def test_alternatives(root: Path) -> None:
    records = root / "var/lib/dpkg/alternatives"
    records.mkdir()
    (records / "awk").write_text("auto\n/usr/bin/awk\nnawk\n/usr/bin/nawk\n\n/usr/bin/mawk\n5\n")
    (records / "java").write_text("auto\n/usr/bin/java\n\n/usr/lib/jvm/bin/java\n1\n")
    (records / "bad").write_text("")
    found = list(DebianPackages(root).alternatives())
    assert found == ["/usr/bin/awk", "/usr/bin/nawk", "/usr/bin/java"]


def test_what_a_package_requires(root: Path) -> None:
    packages = DebianPackages(root)
    assert [one.name for one in packages.requires("tool")] == ["python3", "mawk", "libtool1"]
    assert [one.name for one in packages.requires("nosuch")] == []
    mawk = packages.get("mawk")
    assert mawk is not None
    assert mawk.essential
    assert packages.get("gone") is None


def test_plain_libraries_are_left_out(root: Path) -> None:
    packages = DebianPackages(root)
    assert closure(packages, "tool", lambda _: False) == [
        "tool",
        "python3",
        "mawk",
        "python3-minimal",
    ]


def test_below_scripts_everything_is_taken(root: Path) -> None:
    found = closure(DebianPackages(root), "tool", lambda name: name == "python3")
    assert found == ["tool", "python3", "mawk", "python3-minimal", "libpython3-stdlib", "libssl3"]


def test_a_machine_without_dpkg(tmp_path: Path) -> None:
    packages = DebianPackages(tmp_path)
    assert packages.owner("/bin/sh") is None
    assert packages.get("dash") is None
