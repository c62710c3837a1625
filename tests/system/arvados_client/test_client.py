"""`arvados-python-client`, as it is on the package index, against a real `lading up`: every check
of `drive`, and the commands that come with it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.arvados_client.environment import client_environment
from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import ROOT

pytestmark = [pytest.mark.system, pytest.mark.quick]
HERE = Path(__file__).parent
CHECKS = sorted(
    node.name
    for path in HERE.glob("*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
)
VOCABULARY = {
    "tags": {"species": {"strict": True, "values": {"hs": {"labels": [{"label": "Human"}]}}}}
}
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("client")
    (root / "vocabulary.json").write_text(json.dumps(VOCABULARY))
    with running_cluster(
        root / "data", f"API:\n  VocabularyPath: {root}/vocabulary.json\n"
    ) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running


@pytest.fixture(scope="module")
def run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a program of the client's environment, with a home directory of its own."""
    programs = client_environment()
    own = {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "IMAGE": "tools:1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    kept = {
        name: value
        for name, value in cluster.environment.items()
        if not name.startswith(("COV", "PYTHON"))
    }

    def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / name), *arguments]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=kept | own,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return program


@pytest.fixture(scope="module")
def results(run: Run) -> dict[str, str]:
    done = run("python", "-m", "tests.system.arvados_client.drive")
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_check(results: dict[str, str], check: str) -> None:
    assert results[check] == "", results[check]


def test_files_there_and_back(run: Run, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "hello.txt").write_text("hello\n")
    (tree / "sub" / "big").write_bytes(os.urandom(1 << 20))
    put = run("arv-put", "--no-progress", "--no-resume", "--name", "a tree", f"{tree}/")
    assert put.returncode == 0, put.stderr
    uuid = put.stdout.strip()
    listed = run("arv-ls", uuid)
    assert listed.stdout.split() == ["./hello.txt", "./sub/big"], listed
    shown = run("arv-get", f"{uuid}/hello.txt", "-")
    assert shown.stdout == "hello\n", shown.stderr
    (tmp_path / "back").mkdir()
    got = run("arv-get", "--no-progress", f"{uuid}/", f"{tmp_path}/back/")
    assert got.returncode == 0, got.stderr
    assert (tmp_path / "back" / "sub" / "big").read_bytes() == (tree / "sub" / "big").read_bytes()


def test_a_file_that_is_put_twice_is_one_block(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("the same")
    first, second = (
        run(
            "arv-put", "--no-progress", "--no-resume", "--portable-data-hash", str(tmp_path / "one")
        )
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout


def test_what_is_not_there_is_said(run: Run) -> None:
    for command in (
        ("arv-ls", "zzzzz-4zz18-000000000000000"),
        ("arv-get", "zzzzz-4zz18-000000000000000/x", "-"),
    ):
        done = run(*command)
        assert done.returncode != 0
        assert "404" in done.stderr or "not found" in done.stderr.lower(), done.stderr


@pytest.mark.parametrize(
    "name",
    ["arv-copy", "arv-get", "arv-keepdocker", "arv-ls", "arv-normalize", "arv-put", "arv-ws"],
)
def test_every_command_starts(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
