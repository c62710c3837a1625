"""Python environments in images: what belongs to them, compiled once."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lading.client.images.host_files import Selection
from lading.client.images.python_environments import add_environment, compile_modules, is_python


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with an interpreter that has a package of its own, and a virtual environment on
    top.
    """
    for path in (
        "opt/python/bin/python3.11",
        "opt/python/lib/python3.11/os.py",
        "opt/python/lib/python3.11/test/test_os.py",
        "opt/python/lib/python3.11/site-packages/own.py",
        "opt/python/lib/python3.11.zip",
        "opt/venv/lib/python3.11/site-packages/tool.py",
        "opt/venv/lib/python3.11/site-packages/data/large.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "opt/venv/pyvenv.cfg").write_text("include-system-site-packages = false\n")
    return tmp_path


def _files(selection: Selection) -> set[str]:
    return {path.removeprefix("/opt/") for path in selection.files()}


def test_an_environment_without_its_interpreters_own_packages(root: Path) -> None:
    selection = Selection(root, without=re.compile(".*/data/"))
    trees = add_environment(
        selection, "/opt/venv/bin/python", "/opt/python/bin/python3.11", is_packaged=False
    )
    assert trees == ["/opt/venv/lib", "/opt/python/lib/python3.11"]
    packages = "venv/lib/python3.11/site-packages"
    assert _files(selection) == {
        "venv/pyvenv.cfg",
        f"{packages}/tool.py",
        "python/lib/python3.11/os.py",
    }


@pytest.mark.parametrize("path", ["/opt/venv/bin/python", "/opt/python/bin/python3.11"])
def test_an_interpreters_own_packages_when_they_are_seen(root: Path, path: str) -> None:
    (root / "opt/venv/pyvenv.cfg").write_text("include-system-site-packages = true\n")
    selection = Selection(root)
    add_environment(selection, path, "/opt/python/bin/python3.11", is_packaged=False)
    assert "python/lib/python3.11/site-packages/own.py" in _files(selection)
    assert "python/lib/python3.11/test/test_os.py" not in _files(selection)


@pytest.mark.parametrize(
    ("with_pip", "requires", "has_pip"),
    [
        (False, "pip-tools", False),
        (False, "pip (>=19.1) ; extra == 'testing'", False),
        (True, "", True),
        (False, "pip >= 20", True),
    ],
)
@pytest.mark.parametrize("path", ["/opt/venv/bin/python", "/opt/python/bin/python3.11"])
def test_pip_comes_where_something_needs_it(
    root: Path, path: str, with_pip: bool, requires: str, has_pip: bool
) -> None:
    packages = root / path.removeprefix("/").partition("/bin/")[0] / "lib/python3.11/site-packages"
    for name in ("pip/main.py", "pip-23.2.dist-info/METADATA", "tool-1.dist-info/METADATA"):
        (packages / name).parent.mkdir(exist_ok=True)
        (packages / name).write_text(f"Name: x\nRequires-Dist: {requires}\n")
    (packages / "pip-23.2.dist-info/METADATA").write_text("Name: pip\n")
    (packages / "pipes.py").write_text("")
    selection = Selection(root)
    add_environment(
        selection, path, "/opt/python/bin/python3.11", is_packaged=False, with_pip=with_pip
    )
    found = {one for one in _files(selection) if "/site-packages/pip" in one}
    assert {one.rpartition("/site-packages/")[2] for one in found} == {
        "pipes.py",
        *(("pip/main.py", "pip-23.2.dist-info/METADATA") if has_pip else ()),
    }


def test_a_library_that_a_package_brings_is_left_to_it(root: Path) -> None:
    selection = Selection(root)
    trees = add_environment(
        selection, "/opt/venv/bin/python", "/opt/python/bin/python3.11", is_packaged=True
    )
    assert "/opt/python/lib/python3.11" in trees
    assert not any(path.startswith("python/") for path in _files(selection))


def test_modules_are_compiled_the_same_each_time(tmp_path: Path) -> None:
    module, wrong = tmp_path / "lib/one.py", tmp_path / "lib/two.py"
    module.parent.mkdir()
    module.write_text("SET = {'a', 'b', 'c'}\ndef f(x): return x in {'a', 'b', 'c', 'd'}\n")
    wrong.write_text("print 'another language'\n")
    found = [
        {
            path: file.read_bytes()
            for path, file in compile_modules(Path(sys.executable), paths, tmp_path / folder)
        }
        for folder, paths in (
            ("first", [str(module), str(wrong)]),
            ("again", [str(module), str(wrong)]),
        )
    ]
    name = f"{tmp_path}/lib/__pycache__/one.{sys.implementation.cache_tag}.pyc"
    assert list(found[0]) == [name]
    assert found[0] == found[1]
    assert found[0][name][4] == 1, "checked against nothing: the times of an image mean nothing"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/usr/bin/python3", True),
        ("/opt/v/bin/python", True),
        ("/usr/bin/python3.12", True),
        ("/bin/pythonx", False),
    ],
)
def test_interpreters_are_known_by_name(path: str, answer: bool) -> None:
    assert is_python(path) is answer
