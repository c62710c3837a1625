"""Images from programs: on a small machine made for the test, and once on this one."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lading.client.images.archive import ImageParts
from lading.client.images.from_host import SourceHost, from_host, script_programs, this_host
from lading.client.images.linkage import Linkage
from lading.client.images.steps import ImageSteps
from lading.core.errors import Invalid
from tests.client.images.test_linkage import _elf

_STATUS = "\n".join(
    f"Package: {name}\nStatus: install ok installed\n"
    f"Section: {section}\nEssential: {essential}\nDepends: {depends}\n"
    for name, section, essential, depends in (
        ("dash", "shells", "yes", ""),
        ("aligner", "science", "no", "perl"),
        ("plain", "science", "no", "libplain1"),
        ("libplain1", "libs", "no", ""),
        ("perl", "perl", "no", "perl-base, libperl"),
        ("perl-base", "perl", "yes", ""),
        ("libperl", "libs", "no", ""),
    )
)
_PACKAGES = {
    "dash": ["/bin/sh"],
    "aligner": [
        "/.",
        "/usr/bin/align",
        "/usr/bin/align-core",
        "/usr/share/doc/aligner/README",
        "/etc/align.key",
    ],
    "plain": ["/usr/bin/plain", "/usr/bin/plain.pl", "/usr/bin/plain.py"],
    "libplain1": ["/usr/lib/libplain.so.1", "/usr/share/libplain/data"],
    "perl": ["/usr/bin/perldoc"],
    "perl-base": ["/usr/bin/perl"],
    "libperl": ["/usr/lib/perl/List.pm", "/usr/lib/perl/pod/List.pod"],
}
_TEXTS = {
    "/usr/bin/align": "#!/usr/bin/perl\n",
    "/usr/bin/perldoc": "#!/usr/bin/perl\n",
    "/usr/bin/plain.pl": "#!/usr/bin/perl\n",
    "/usr/bin/plain.py": "#!/usr/bin/env python3\n",
    "/opt/own.sh": "#! /usr/bin/env -S sh -e\n",
}


@pytest.fixture
def host(tmp_path: Path) -> SourceHost:
    """A machine with these packages, merged /usr, and a linker that gives one library to ELF
    files.
    """
    root = tmp_path / "machine"
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info.parent / "status").write_text(_STATUS)
    (root / "usr/bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    for name, paths in _PACKAGES.items():
        (info / f"{name}.list").write_text("\n".join(paths) + "\n")
    files = [path for paths in _PACKAGES.values() for path in paths if path != "/."]
    for path in (
        *files,
        *_TEXTS,
        "/usr/bin/env",
        "/lib/ld.so",
        "/usr/lib/libc.so.6",
        "/usr/lib/libgcc_s.so.1",
    ):
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_TEXTS[path].encode() if path in _TEXTS else _elf(wide=True))
        file.chmod(0o600 if path.endswith(".key") else 0o755)
    linked = Linkage(libraries=("/usr/lib/libc.so.6",), directories=("/opt/lib",))
    return SourceHost(
        root=root,
        search=("relative", "/usr/bin"),
        linker=lambda _loader, _path: linked,
        architecture="amd64",
    )


def _names(parts: ImageParts) -> set[str]:
    with tarfile.open(parts.layers[0].path) as tar:
        return {f"/{name}" for name in tar.getnames()}


def test_a_script_brings_its_language_with_its_modules(host: SourceHost, tmp_path: Path) -> None:
    parts = from_host(["align"], tmp_path, host=host)
    names = _names(parts)
    assert {
        "/usr/bin/align",
        "/usr/bin/align-core",
        "/usr/bin/perl",
        "/usr/lib/perl/List.pm",
    } <= names
    assert not names & {
        "/usr/share/doc/aligner/README",
        "/etc/align.key",
        "/usr/lib/perl/pod/List.pod",
        "/usr/bin/plain",
    }
    assert parts.notes == ("/etc/align.key: left out, only root may read it",)


def test_a_binary_brings_libraries_one_by_one(host: SourceHost, tmp_path: Path) -> None:
    names = _names(from_host(["plain"], tmp_path, host=host))
    assert {"/usr/bin/plain", "/lib/ld.so", "/usr/lib/libc.so.6", "/usr/lib/libgcc_s.so.1"} <= names
    assert "/usr/share/libplain/data" not in names
    assert "/usr/bin/perl" in names, "an essential interpreter of its scripts"
    assert "/usr/lib/perl/List.pm" not in names, (
        "but not the modules of a language that it does not depend on"
    )


def test_an_interpreter_that_is_named_brings_its_modules(host: SourceHost, tmp_path: Path) -> None:
    assert "/usr/lib/perl/List.pm" in _names(from_host(["perl"], tmp_path, host=host))


def test_alternatives_that_lead_to_a_package_come_along(host: SourceHost, tmp_path: Path) -> None:
    records = host.root / "var/lib/dpkg/alternatives"
    records.mkdir(parents=True)
    links = {
        "usr/bin/aln": "../../etc/alternatives/aln",
        "etc/alternatives/aln": "../../usr/bin/align",
    }
    for name, target in links.items():
        path = host.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    (records / "aln").write_text("auto\n/usr/bin/aln\n\n/usr/bin/align\n1\n")
    (records / "other").write_text("auto\n/usr/bin/other\n\n/usr/bin/none\n1\n")
    names = _names(from_host(["align"], tmp_path, host=host))
    assert {"/usr/bin/aln", "/etc/alternatives/aln"} <= names
    assert "/usr/bin/other" not in names


def test_packages_that_are_named_come_complete(host: SourceHost, tmp_path: Path) -> None:
    names = _names(from_host(["plain"], tmp_path, host=host, packages=["aligner"]))
    assert {"/usr/bin/align", "/usr/bin/align-core", "/usr/lib/perl/List.pm"} <= names


def test_every_image_can_be_lived_in(host: SourceHost, tmp_path: Path) -> None:
    parts = from_host(["plain"], tmp_path, host=host)
    with tarfile.open(parts.layers[0].path) as tar:
        members = {f"/{member.name}": member for member in tar}
    assert members["/tmp"].mode == 0o1777
    assert members["/bin"].issym()
    assert {"/etc/passwd", "/etc/group", "/proc", "/dev", "/usr/bin/sh"} <= set(members)
    assert {member.mtime for member in members.values()} == {0}
    environment = json.loads(parts.config)["config"]["Env"]
    assert environment[1] == "LD_LIBRARY_PATH=/opt/lib"


def test_relative_paths_begin_in_the_working_directory(
    host: SourceHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert this_host({}).path("./own.sh") == f"{tmp_path}/own.sh"
    parts = [
        from_host([name], tmp_path, host=replace(host, directory="/opt"))
        for name in ("./own.sh", "/opt/own.sh")
    ]
    assert parts[0].config == parts[1].config
    assert "/opt/own.sh" in _names(parts[0])


def test_the_same_programs_give_the_same_image(host: SourceHost, tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    again.mkdir()
    one = from_host(["plain", "align"], first, host=host)
    os.utime(host.root / "usr/bin/plain", (1, 1))
    two = from_host(["align", "plain", "align"], again, host=host)
    assert (one.config, one.layers[0].diff_id) == (two.config, two.layers[0].diff_id)


def test_a_script_of_no_package(host: SourceHost, tmp_path: Path) -> None:
    names = _names(from_host(["/opt/own.sh"], tmp_path, host=host))
    assert {"/opt/own.sh", "/usr/bin/env", "/usr/bin/sh"} <= names


@pytest.mark.parametrize("name", ["nosuch", "/opt/nosuch", "./relative", "/opt"])
def test_what_is_no_program_is_named(host: SourceHost, tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match=f"--from-host {host.path(name)}: is n"):
        from_host([name], tmp_path, host=host)


def test_nothing_named(host: SourceHost, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no program is named"):
        from_host([], tmp_path, host=host)


def test_a_library_that_is_not_there(host: SourceHost, tmp_path: Path) -> None:
    lacking = replace(
        host,
        linker=lambda _loader, path: Linkage(missing=("libx.so",) if path.name == "plain" else ()),
    )
    with pytest.raises(
        Invalid, match=r"/usr/bin/plain: this machine lacks a library it needs: libx\.so"
    ):
        from_host(["plain"], tmp_path, host=lacking)
    core = replace(
        host,
        linker=lambda _loader, path: Linkage(
            missing=("libx.so",) if path.name == "align-core" else ()
        ),
    )
    assert (
        "align-core: cannot run, its library libx.so"
        in from_host(["align"], tmp_path, host=core).notes[1]
    )


def test_scripts_of_version_managers_come_last(host: SourceHost, tmp_path: Path) -> None:
    shims = host.root / "home/shims"
    shims.mkdir(parents=True)
    (shims / "plain").write_text("#!/bin/sh\n")
    (shims / "plain").chmod(0o755)
    parts = from_host(["plain"], tmp_path, host=replace(host, search=("/home/shims", "/usr/bin")))
    assert "/home/shims/plain" not in _names(parts)


def _environment(host: SourceHost, name: str) -> SourceHost:
    """The machine with an active virtual environment, which has the program `name`."""
    folder = host.root / "opt/active/bin"
    folder.mkdir(parents=True)
    (folder.parent / "pyvenv.cfg").write_text("")
    (folder / name).write_bytes(_elf(wide=True))
    (folder / name).chmod(0o755)
    return replace(host, search=("/opt/active/bin", *host.search))


def test_scripts_of_packages_use_no_active_environment(host: SourceHost, tmp_path: Path) -> None:
    (host.root / "usr/bin/align").write_text("#!/usr/bin/env perl\n")
    names = _names(from_host(["align"], tmp_path, host=_environment(host, "perl")))
    assert "/usr/bin/perl" in names
    assert not any(name.startswith("/opt/active") for name in names)


def test_the_usual_programs_come_from_no_active_environment(
    host: SourceHost, tmp_path: Path
) -> None:
    names = _names(from_host(["plain"], tmp_path, host=_environment(host, "sh")))
    assert not any(name.startswith("/opt/active") for name in names)


def test_a_program_of_an_active_environment_can_be_called_by_its_name(
    host: SourceHost, tmp_path: Path
) -> None:
    parts = from_host(["tool"], tmp_path, host=_environment(host, "tool"))
    with tarfile.open(parts.layers[0].path) as tar:
        assert tar.getmember("usr/local/bin/tool").linkname == "/opt/active/bin/tool"


def test_env_finds_the_interpreter_of_a_script_in_the_image(
    host: SourceHost, tmp_path: Path
) -> None:
    (host.root / "opt/own.py").write_text("#!/usr/bin/env python3\n")
    (host.root / "opt/own.py").chmod(0o755)
    parts = from_host(["/opt/own.py"], tmp_path, host=_environment(host, "python3"))
    with tarfile.open(parts.layers[0].path) as tar:
        script = tar.extractfile("usr/local/bin/python3")
        assert script is not None
        assert script.read() == b'#!/bin/sh\nexec /opt/active/bin/python3 "$@"\n'


def test_an_interpreter_that_is_named_by_its_path_gets_no_further_name(
    host: SourceHost, tmp_path: Path
) -> None:
    machine = _environment(host, "python3")
    (host.root / "opt/own.py").write_text("#!/opt/active/bin/python3\n")
    (host.root / "opt/own.py").chmod(0o755)
    names = _names(from_host(["/opt/own.py"], tmp_path, host=machine))
    assert "/opt/active/bin/python3" in names
    assert "/usr/local/bin/python3" not in names


def test_a_virtual_environment_comes_with_its_packages(host: SourceHost, tmp_path: Path) -> None:
    home = host.root / "opt/python"
    for path in ("bin/python3.11", "lib/python3.11/os.py", "lib/python3.11/__pycache__/os.pyc"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(_elf(wide=True))
        (home / path).chmod(0o755)
    venv = host.root / "opt/venv"
    for path, text in (
        ("bin/tool", "#!/opt/venv/bin/python3\n"),
        ("pyvenv.cfg", ""),
        ("lib/site/tool.py", ""),
    ):
        (venv / path).parent.mkdir(parents=True, exist_ok=True)
        (venv / path).write_text(text)
        (venv / path).chmod(0o755)
    (venv / "bin/python3").symlink_to("../../python/bin/python3.11")
    names = _names(from_host(["/opt/venv/bin/tool"], tmp_path, host=host))
    assert {
        "/opt/venv/pyvenv.cfg",
        "/opt/venv/lib/site/tool.py",
        "/opt/python/lib/python3.11/os.py",
    } <= names
    assert "/opt/python/lib/python3.11/__pycache__/os.pyc" not in names


def test_the_interpreter_of_an_environment_is_called_by_its_own_path(
    host: SourceHost, tmp_path: Path
) -> None:
    """A link to it would not find pyvenv.cfg, and so none of its modules."""
    folder = host.root / "opt/my venv/bin"
    folder.mkdir(parents=True)
    (folder.parent / "pyvenv.cfg").write_text("")
    (folder / "python").write_bytes(_elf(wide=True))
    (folder / "python").chmod(0o755)
    (folder / "python3").symlink_to("python")
    parts = from_host(["/opt/my venv/bin/python"], tmp_path, host=host)
    with tarfile.open(parts.layers[0].path) as tar:
        for name in ("python", "python3"):
            script = tar.extractfile(f"usr/local/bin/{name}")
            assert script is not None
            assert script.read() == b"#!/bin/sh\nexec '/opt/my venv/bin/python' \"$@\"\n"


def test_modules_of_an_environment_come_compiled(host: SourceHost, tmp_path: Path) -> None:
    venv = host.root / "opt/venv"
    for path, text in (
        ("bin/tool", "#!/opt/venv/bin/python\n"),
        ("pyvenv.cfg", ""),
        ("lib/tool.py", ""),
    ):
        (venv / path).parent.mkdir(parents=True, exist_ok=True)
        (venv / path).write_text(text)
        (venv / path).chmod(0o755)
    (venv / "bin/python").symlink_to("../../../usr/bin/plain")

    def compiler(
        interpreter: Path, files: Sequence[str], folder: Path, _steps: ImageSteps
    ) -> list[tuple[str, Path]]:
        assert interpreter == venv / "bin/python"
        folder.mkdir(parents=True)
        (folder / "tool.pyc").write_text("compiled")
        return (
            [("/opt/venv/lib/__pycache__/tool.pyc", folder / "tool.pyc")]
            if "/opt/venv/lib/tool.py" in files
            else []
        )

    parts = from_host(["/opt/venv/bin/tool"], tmp_path, host=replace(host, compiler=compiler))
    assert {"/opt/venv/lib/tool.py", "/opt/venv/lib/__pycache__/tool.pyc"} <= _names(parts)


def test_a_program_named_by_its_path_can_be_called_by_its_name(
    host: SourceHost, tmp_path: Path
) -> None:
    parts = from_host(["/opt/own.sh", "/usr/bin/plain"], tmp_path, host=host)
    with tarfile.open(parts.layers[0].path) as tar:
        assert tar.getmember("usr/local/bin/own.sh").linkname == "/opt/own.sh"
        assert "usr/local/bin/plain" not in tar.getnames()


def test_libraries_beside_their_program_have_plain_paths(host: SourceHost, tmp_path: Path) -> None:
    (host.root / "opt/lib").mkdir(parents=True)
    (host.root / "opt/lib/libnear.so").write_bytes(_elf(wide=True))
    linked = replace(
        host, linker=lambda _loader, _path: Linkage(libraries=("/opt/bin/../lib/libnear.so",))
    )
    names = _names(from_host(["plain"], tmp_path, host=linked))
    assert "/opt/lib/libnear.so" in names
    assert not any(".." in name for name in names)


def test_what_is_not_wanted_of_packages(host: SourceHost, tmp_path: Path) -> None:
    names = _names(from_host(["align"], tmp_path, host=host, without=re.compile("/usr/lib/perl/")))
    assert "/usr/lib/perl/List.pm" not in names


@pytest.mark.parametrize("name", ["/dev/shm/tool", "/opt/link"])
def test_a_program_that_no_container_can_see(host: SourceHost, tmp_path: Path, name: str) -> None:
    place = host.root / "dev/shm/tool"
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    (host.root / "opt/link").symlink_to("../dev/shm/tool")
    with pytest.raises(Invalid, match=f"{name}: a container has a /dev of its own"):
        from_host([name], tmp_path, host=host)


def test_links_that_lead_nowhere(host: SourceHost, tmp_path: Path) -> None:
    (host.root / "opt/inside").symlink_to(tmp_path / "outside")
    (tmp_path / "outside").write_text("#!/bin/sh\n")
    (tmp_path / "outside").chmod(0o755)
    with pytest.raises(Invalid, match="/opt/inside: its symbolic links lead nowhere"):
        from_host(["/opt/inside"], tmp_path, host=host)


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("#!/bin/sh -e\n", ["/bin/sh"]),
        ("#!/usr/bin/env -S A=1 perl -w\n", ["/usr/bin/env", "perl"]),
        ("#!/usr/bin/env\n", ["/usr/bin/env"]),
        ("#!\n", []),
        ("text", []),
    ],
)
def test_the_first_line_of_a_script(tmp_path: Path, text: str, programs: list[str]) -> None:
    (tmp_path / "script").write_text(text)
    assert script_programs(tmp_path / "script") == programs
    assert script_programs(tmp_path / "absent") == []


def test_this_machine_gives_one_image_twice(tmp_path: Path) -> None:
    host = this_host(os.environ)
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    again.mkdir()
    one = from_host(["sh"], first, host=host)
    two = from_host(["sh"], again, host=host)
    assert one.config == two.config
    assert "/bin/sh" in {name.replace("/usr/", "/") for name in _names(one)}
