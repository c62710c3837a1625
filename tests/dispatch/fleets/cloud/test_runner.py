from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from lading.dispatch.fleets.cloud import agent, runner
from lading.dispatch.fleets.cloud.runner import RunnerArchive


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunnerArchive:
    return runner.build(tmp_path_factory.mktemp("runner"))


def test_the_same_files_give_the_same_archive(made: RunnerArchive) -> None:
    other = made.path.with_name("runner~old.tgz")
    other.touch()
    assert runner.build(made.path.parent) == made
    assert [path.name for path in made.path.parent.iterdir()] == [f"runner~{made.hash}.tgz"]


def test_it_runs_where_there_is_nothing_of_ours(made: RunnerArchive, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", made.path, "-C", tmp_path], check=True)
    script = (
        "import sys, os, lading.supervisor.process.forkserver, lading.client.mount.service\n"
        "from lading.supervisor.engines import find_engines\n"
        "print(sorted(find_engines().by_name), sys.executable, 'LD_LIBRARY_PATH' in os.environ)"
    )
    done = subprocess.run(
        [str(tmp_path / "bin/python"), "-c", script], env={"PATH": "/usr/bin:/bin"}, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert (
        done.stdout
        == f"['docker', 'native', 'native-crun', 'podman'] {tmp_path}/bin/python False\n"
    )
    assert not (tmp_path / "lib/python3.11/site-packages/lading/testing").exists()


def test_it_has_every_package_that_a_supervisor_imports(
    made: RunnerArchive, tmp_path: Path
) -> None:
    """Each module of ours that a program of a VM reaches can be imported there."""
    subprocess.run(["tar", "-xzf", made.path, "-C", tmp_path], check=True)
    assert {"aiohttp", "asyncssh", "cryptography", "msgspec"} <= set(runner.imported_packages())
    assert not {"asyncpg", "uvicorn", "click", "rich"} & set(runner.imported_packages())
    script = (
        "import importlib, pkgutil, sys\n"
        "import lading.supervisor as package\n"
        "for one in pkgutil.walk_packages(package.__path__, 'lading.supervisor.'):\n"
        "    if not one.name.endswith('__main__'): importlib.import_module(one.name)\n"
        "import lading.hpc.conductor, lading.client.mount.service, asyncssh\n"
        "from lading.process.tracing import TracingSettings, open_tracer\n"
        "tracer = open_tracer(TracingSettings(endpoint='http://127.0.0.1:1/v1/traces'), 'x')\n"
        "assert tracer.begin('work').traceparent\n"
        "import certifi, os; assert os.path.exists(certifi.where())"
    )
    done = subprocess.run(
        [str(tmp_path / "bin/python"), "-c", script], env={"PATH": "/usr/bin:/bin"}, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_agent_is_python_3_9_with_nothing_but_its_library() -> None:
    text = Path(str(agent.__file__)).read_text()
    tree = ast.parse(text, feature_version=(3, 9))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {
        "__future__", "hashlib", "json", "os", "pathlib", "platform", "select", "shutil", "socket",
        "subprocess", "sys", "tarfile", "typing",
    }  # fmt: skip
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
