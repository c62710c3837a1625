"""The tests that a change can reach: imports, rows, and what reaches everything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.affected import __main__ as affected
from tests.affected.choice import PAGES_TEST, Choice, choose
from tests.affected.imports import ImportGraph, modules_of, way
from tests.affected.mutations import MUTATIONS, Mutation
from tests.affected.subjects import SUBJECTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return ImportGraph.read(ROOT)


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[str, ...]]:
    return affected.played_commands()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one.file}: {one.mutated}")
def test_the_tests_that_run_a_mutated_place_are_chosen(
    mutation: Mutation, graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    path = f"src/lading/{mutation.file}"
    assert mutation.text in (ROOT / path).read_text(), "mutate another place of this file"
    assert (ROOT / mutation.modules).exists()
    choice = choose([path], graph, pages)
    assert {f"tests/{name}" for name in mutation.real} <= {*choice.tests}


def test_mutations_are_in_all_packages() -> None:
    packages = {mutation.file.partition("/")[0] for mutation in MUTATIONS}
    assert packages == {
        path.name
        for path in (ROOT / "src" / "lading").iterdir()
        if (path / "__init__.py").exists() and path.name != "testing"
    }
    assert len(MUTATIONS) == 24


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ("CHANGELOG.md", []),
        ("tests/core/test_ids.py", []),
        ("docs/shell.md", [f"{PAGES_TEST}::test_a_page[docs/shell.md]"]),
        ("tests/system/test_slurm.py", ["tests/system/test_slurm.py"]),
        ("requirements/crates.txt", ["tests/system/test_provenance.py"]),
        ("examples/samples/steps.py", ["tests/system/test_samples.py"]),
        ("scripts/oci.py", ["tests/system/test_packaging.py"]),
    ],
)
def test_a_change_of_one_thing_reaches_its_tests(
    changed: str, names: list[str], graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    choice = choose([changed], graph, pages)
    assert not choice.everything
    assert [*choice.tests] == names


@pytest.mark.parametrize(
    "changed",
    [
        "src/lading/core/values.py", "src/lading/config/site.py", "src/lading/store/schema.py",
        "tests/conftest.py", "tests/affected/subjects.py", "tests/case_processes.py", ".ci/run",
        "pyproject.toml", "a/file/of/no/row",
    ],
)  # fmt: skip
def test_what_everything_needs_reaches_everything(
    changed: str, graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    choice = choose(["CHANGELOG.md", changed], graph, pages)
    assert changed in choice.everything
    assert {*choice.tests} >= {*SUBJECTS}
    assert len(choice.tests) == len(SUBJECTS) + len(pages)


def test_a_command_reaches_the_pages_that_show_it_and_no_other_command(
    graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    choice = choose(["src/lading/cli/files/mount.py"], graph, pages)
    assert f"{PAGES_TEST}::test_a_page[docs/mount.md]" in choice.tests
    assert "tests/system/test_mount.py" in choice.tests
    assert "tests/system/test_closed_terminal.py" not in choice.tests
    assert "tests/system/test_engines.py" not in choice.tests


def test_a_helper_reaches_the_tests_that_import_it_and_a_reason_names_the_way(
    graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    choice = choose(["tests/system/slurm_cluster.py"], graph, pages)
    assert "imports tests.system.slurm_cluster" in choice.tests["tests/system/test_slurm.py"]
    assert "tests/system/test_data.py" not in choice.tests
    choice = choose(["src/lading/tes/app.py"], graph, pages)
    assert choice.tests["tests/system/test_tes_contract.py"] == "exercises tes.app"
    # What puts everything together does not lead to everything.
    assert "tests/system/test_engines.py" not in choice.tests


def test_removed_and_new_modules_are_changes(
    graph: ImportGraph, pages: dict[str, tuple[str, ...]]
) -> None:
    choice = choose(["src/lading/tes/gone.py"], graph, pages)
    assert "tests/system/test_tes.py" in choice.tests


def test_imports_of_every_kind_count(tmp_path: Path) -> None:
    files = {
        "src/lading/__init__.py": "",
        "src/lading/a/__init__.py": "X = 1",
        "src/lading/a/b.py": "def f():\n    from ..c import d\n",
        "src/lading/c.py": "if TYPE_CHECKING:\n    import lading.e\n",
        "src/lading/e.py": "",
        "src/lading/f.py": "from lading import a\n",
        "tests/test_x.py": 'START = ["-m", "lading.a.b"]\nNOTE = "see lading.e for more"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = ImportGraph.read(tmp_path)
    reached = graph.reach({"lading.e"})
    assert way(reached, "tests.test_x") == ["tests.test_x", "lading.a.b", "lading.c", "lading.e"]
    assert "lading.f" not in reached
    # Each module of a package runs the package first; who imports the package has all of it.
    package = modules_of("src/lading/a/__init__.py")
    assert {"lading.a.b", "lading.f", "tests.test_x"} <= {*graph.reach(package)}
    assert "lading.a.b" not in graph.reach({"lading.a"})
    assert graph.reach({"lading.e"}, ["lading.c"]) == {
        "lading.e": "lading.e",
        "lading.c": "lading.e",
    }


@pytest.mark.parametrize("base", ["", "0" * 40, "no-such-revision"])
def test_without_an_earlier_revision_everything_runs(
    base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(affected, "BASE", tmp_path / "base")
    choice = affected.choice_since(base)
    assert "is no revision before this one" in choice.everything
    assert {*choice.tests} >= {*SUBJECTS}


def test_the_revision_is_that_of_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    base = tmp_path / "base"
    base.write_bytes(head.stdout)
    monkeypatch.setattr(affected, "BASE", base)
    assert "is no revision" not in affected.choice_since("").everything
    names = {"tests/system/test_up.py": "exercises wiring.up"}
    monkeypatch.setattr(affected, "choice_since", lambda base: Choice(names))
    for options, said in (
        ([], "tests/system/test_up.py: exercises wiring.up\n1 are reached\n"),
        (["--names"], "tests/system/test_up.py\n"),
    ):
        monkeypatch.setattr("sys.argv", ["affected", *options])
        assert affected.main() == 0
        assert capsys.readouterr().out == said
