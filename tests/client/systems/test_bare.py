"""The client as `pip install` of its wheel brings it: without the packages of extras, and without
the server's modules.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lading.cli.endings.extras import PACKAGES, SERVER

_ROOT = Path(__file__).parents[3]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
# Modules of lower layers that servers alone import, and the two of the client that extras are for.
_OF_EXTRAS = {
    "lading.process.metrics": "prometheus_client",
    "lading.net.certificates": "cryptography",
    "lading.net.docker_api": "aiodocker",
    "lading.config.site": "yaml",
    "lading.process.gpus.cdi_files": "yaml",
    "lading.process.gpus.inventory": "yaml",
    "lading.client.mount.fuse": "mfusepy",
    "lading.client.remote_files.fsspec_system": "fsspec",
    "lading.cli.assistants.server": "mcp",
    "lading.client.executors.dask_scheduler": "dask",
    "lading.client.executors.joblib_backend": "joblib",
    "lading.client.executors.parsl_executor": "parsl",
}
_COMMAND = """
import sys
from tests.client.systems.bare import become_bare
become_bare(has_server_modules={has_server})
sys.argv = ["lading", *sys.argv[1:]]
from lading.cli.console import main
sys.exit(main())
"""


def _lading(
    *arguments: str, home: Path, has_server: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _COMMAND.format(has_server=has_server), *arguments],
        cwd=_ROOT,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_wheel_for_all_systems_has_the_packages_of_the_client() -> None:
    (left_out,) = (
        ast.literal_eval(statement.value)
        for statement in ast.parse((_ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "SERVER"
    )
    assert {f"lading.{name}" for name in left_out} == SERVER | {"lading.testing"}
    packages = {path.parent.name for path in (_ROOT / "src/lading").glob("*/__init__.py")}
    assert packages - set(left_out) == {
        "cli", "client", "config", "core", "hpc", "net", "process",
    }  # fmt: skip


def test_every_module_of_the_client_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.systems.bare"],
        cwd=_ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    )
    failed = json.loads(done.stdout)
    assert failed == {
        name: f"ModuleNotFoundError: No module named '{package}'"
        for name, package in _OF_EXTRAS.items()
    }


def test_the_wheel_of_the_client_lacks_the_modules_that_are_hidden_here() -> None:
    tree = ast.parse((_ROOT / "setup.py").read_text())
    (lacking,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SERVER"
    )
    assert {f"lading.{name}" for name in lacking} == SERVER | {"lading.testing"}


def test_the_packages_that_are_hidden_here_are_those_of_the_extras() -> None:
    extras = _PROJECT["optional-dependencies"]
    names = {
        requirement.partition(">")[0].lower()
        for extra in ("server", "mount", "export", "fsspec", "mcp")
        for requirement in extras[extra]
    }
    assert {"yaml" if name == "pyyaml" else name for name in names} == PACKAGES
    assert len(_PROJECT["dependencies"]) == 3


@pytest.mark.parametrize(
    "command", ["run", "map", "top", "put", "get", "shell", "image", "request"]
)
def test_help_of_commands(command: str, tmp_path: Path) -> None:
    done = _lading(command, "--help", home=tmp_path, has_server=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_site_of_ones_own_says_which_command_installs_it(tmp_path: Path) -> None:
    done = _lading("up", home=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("lading: lading up needs the extra 'server', which is not ")
    assert "[server]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_servers_modules(tmp_path: Path) -> None:
    done = _lading("doctor", "--json", home=tmp_path, has_server=False)
    assert done.returncode == 1
    assert "the wheel for Linux" in json.loads(done.stderr)["error"]["message"]


def test_a_run_without_a_site(tmp_path: Path) -> None:
    done = _lading("run", "--no-start", "--", "true", home=tmp_path, has_server=False)
    assert done.returncode == 125
    assert "no server" in done.stderr
