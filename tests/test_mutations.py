"""The script that draws mutations, on a small repository of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts import mutations
from scripts.mutations import TestFiles, draw, main, mutations_of

SOURCE = """
def is_large(size: int, limit: int = 5) -> bool:
    return not size < limit


def told(size: int) -> str:
    if size > 10**6 and size:
        return "much"
    return "little"
"""
TEST = """
from lading.api.sizes import is_large


def test_the_limit() -> None:
    assert [is_large(size) for size in (4, 5, 6)] == [False, True, True]
"""


def commit(root: Path) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    for command in (["add", "."], ["commit", "-qm", "change"]):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one module, half of which is tested."""
    top = tmp_path / "top"
    files = {
        "src/lading/__init__.py": "",
        "src/lading/api/__init__.py": "",
        "src/lading/api/sizes.py": SOURCE,
        "tests/__init__.py": "",
        "tests/api/test_sizes.py": TEST,
        ".gitignore": "__pycache__\n",
    }
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    commit(top)
    monkeypatch.setattr(mutations, "ROOT", top)
    # The tests there need none, and start sooner.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return top


def test_each_kind_of_mutation() -> None:
    source = (
        "import os\nLIMIT = 5\n"
        "def f(a, b):\n    self.x = a + b\n    g(a, b)\n    return a if a is b else not b\n"
    )
    changes = {(one.kind, one.before, one.after) for one in mutations_of("m.py", source)}
    assert changes == {
        ("left out", "self.x = a + b", "pass"),
        ("operator", "a + b", "(a - b)"),
        ("left out", "g(a, b)", "pass"),
        ("arguments", "g(a, b)", "(g(b, a))"),
        ("returned value", "return a if a is b else not b", "return None"),
        ("comparison", "a is b", "(a is not b)"),
        ("not", "not b", "(b)"),
    }


def test_a_mutation_changes_its_place_only() -> None:
    source = "def f(a):\n    name = 'é'; return a == 1\n"
    by_kind = {one.kind: one.apply(source) for one in mutations_of("m.py", source)}
    assert by_kind["comparison"] == "def f(a):\n    name = 'é'; return (a != 1)\n"
    assert by_kind["constant"] == "def f(a):\n    name = 'é'; return a == (2)\n"


def test_what_only_informs_is_left_alone() -> None:
    source = "def f(a: 'x' = None):\n    '''Text.'''\n    event(_logger, 'x', a=a)\n"
    assert mutations_of("m.py", source) == []
    assert mutations_of("m.py", "def f(a, b):\n    c = max(a, b), isinstance(a, b)\n") == []


def test_files_that_share_a_word_come_first(root: Path) -> None:
    imports = "import lading.api.sizes\n"
    (root / "tests/api/test_a.py").write_text(imports)
    (root / "tests/api/test_size_limits.py").write_text("import tests.api.test_a\n")
    named, others = TestFiles(root).chosen("src/lading/api/sizes.py")
    assert named == ["tests/api/test_sizes.py"]
    assert others == ["tests/api/test_size_limits.py", "tests/api/test_a.py"]


def test_the_same_seed_draws_the_same(root: Path) -> None:
    first, again, other = (draw(root, ["api"], count=4, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(draw(root, ["api"], count=99, seed=1)) < 20


def test_it_tells_what_the_tests_find(root: Path) -> None:
    path = "src/lading/api/sizes.py"
    of_source = {one.before: one for one in mutations_of(path, SOURCE)}
    chosen = [of_source["size < limit"], of_source["size > 10**6"]]
    found, survived = mutations.carry_out(chosen, workers=1, limit=60)
    assert (found.verdict, found.test) == ("found", "tests/api/test_sizes.py::test_the_limit")
    assert (survived.verdict, survived.test) == ("survived", "")
    # Neither a changed file nor a copy is left.
    command = ["git", "-C", str(root), "worktree", "list"]
    listed = subprocess.run(command, check=True, capture_output=True)
    assert len(listed.stdout.splitlines()) == 1
    assert (root / path).read_text() == SOURCE


def test_results_are_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = root.parent / "result.json"
    options = ["--package", "api", "--workers", "1", "--count", "1", "--least", "0"]
    assert main([*options, "--json", str(result)]) == 0
    [trial] = json.loads(result.read_text())
    assert trial["mutation"]["path"] == "src/lading/api/sizes.py"
    assert "of 1 were found" in capsys.readouterr().out
    assert main([*options, "--list"]) == 0
    assert "src/lading/api/sizes.py:" in capsys.readouterr().out


def test_a_mutation_that_hangs_ends_with_the_limit(root: Path) -> None:
    (root / "tests/api/test_sizes.py").write_text("import lading.api.sizes\nwhile True: pass\n")
    commit(root)
    drawn = draw(root, ["api"], count=1, seed=0)
    (trial,) = mutations.carry_out(drawn, workers=1, limit=0.5)
    assert (trial.verdict, trial.test) == ("timeout", "")
    assert main(["--package", "api", "--workers", "1", "--limit", "0.5", "--count", "1"]) == 1


def test_changes_that_are_not_committed_are_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "src/lading/api/sizes.py").write_text(SOURCE + "# more\n")
    assert main(["--package", "api"]) == 2
    assert "commit or stash" in capsys.readouterr().err
