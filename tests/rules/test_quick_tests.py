"""`make test` and `make system` together run every test; `make test` runs one of each real part."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rules.sources import PRODUCT, ROOT, TESTS, modules, refuse, shown, text, tree

SCRIPT: Final = ROOT / "scripts" / "test.sh"
REAL: Final = tuple(f"tests/{name}" for name in ("docs", "cwl", "security", "arvados_go", "system"))
# Of each kind: name of the part, and a quick test with it. Names of plug-ins are those of
# pyproject.toml.
ENGINES: Final = dict.fromkeys(
    ("native", "docker", "podman"), "system/test_supervisor.py::test_engines_give_equal_outputs"
)
FLEETS: Final = {
    "local": "system/test_up.py::test_it_stops_and_starts_again_with_the_same_records",
    "slurm": "system/test_slurm.py::test_output_log_and_exit_code_come_back",
    "cloud": "system/test_cloud_trial.py::test_vms_of_this_machine_pass",
    "kubernetes": "system/test_kubernetes_trial.py"
    "::test_on_a_closed_kind_a_request_runs_and_its_shell_and_port_answer",
}
VOLUMES: Final = {
    "Directory": "system/test_files.py::test_curl_reads_ranges_listings_and_archives",
    "S3": "system/test_replicas.py::test_the_loss_of_a_server_is_made_up_for_by_the_other",
}
DATABASES: Final = dict.fromkeys(
    ("sqlite", "postgres"), "system/test_page_journey.py::test_a_request_from_the_form_to_its_end"
)
CLIENTS: Final = {
    "Arvados Python": "system/arvados_client/test_client.py::test_check",
    "Arvados Go": "arvados_go/test_requests.py::test_connect_ssh",
    "browser": "system/test_page_journey.py::test_a_request_from_the_form_to_its_end",
    "cadaver": "system/test_files.py::test_cadaver",
    "davfs2": "system/test_davfs.py::test_files_are_written_through_a_mount",
    "FUSE": "system/test_mount.py::test_ordinary_programs_read_it",
    "OpenSSH": "system/test_shell.py::test_a_command_scp_and_what_is_written_down",
    "MPI": "system/test_hpc.py::test_a_ring_an_allreduce_and_the_heat_equation",
    "registry": "system/test_registry.py"
    "::test_a_container_runs_what_was_pulled_by_tag_and_by_digest",
    "Snakemake": "system/test_snakemake.py::test_resources_logs_and_directories",
    "py-tes": "system/test_tes_clients.py::test_py_tes_and_pydantic_tes_parse_every_answer",
    "WES": "system/test_wes.py::test_a_workflow_that_fails",
}


def _calls(*arguments: str, **variables: str) -> list[list[str]]:
    """The programs that the script starts, in their order, with their arguments."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        programs, script = top / ".venv" / "bin", top / "scripts" / "test.sh"
        programs.mkdir(parents=True)
        script.parent.mkdir()
        shutil.copy(SCRIPT, script)
        for name in ("coverage", "pytest"):
            (programs / name).write_text(
                '#!/bin/sh\nprintf "%s\\t" "${0##*/}" "$@" >>calls\necho >>calls\n'
            )
            (programs / name).chmod(0o755)
        environment = os.environ | {"COVERAGE": "0"} | variables
        subprocess.run([script, *arguments], env=environment, check=True, timeout=60)
        lines = (top / "calls").read_text().splitlines()
    return [line.removesuffix("\t").split("\t") for line in lines]


def _marks(path: Path) -> dict[str, set[str]]:
    """The marks of each test of a file: of its module, of its class, its own and those of its
    parameters.
    """
    everywhere: set[str] = set()
    found: dict[str, set[str]] = {}
    for node in tree(path).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                everywhere = set(_named(value))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found[node.name] = {name for one in node.decorator_list for name in _named(one)}
    return {name: marks | everywhere for name, marks in found.items()}


def _named(node: ast.AST) -> Iterator[str]:
    return (
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Attribute)
        and one.value.attr == "mark"
    )


def test_make_test_runs_every_test_of_modules() -> None:
    for coverage, program in (("0", "pytest"), ("1", "coverage")):
        call = _calls(COVERAGE=coverage)[0]
        assert call[0] == program
        arguments = call[call.index("pytest") + 1 :]
        assert "-m" not in arguments
        assert arguments[-len(REAL) :] == [f"--ignore={one}" for one in REAL]
        assert not [one for one in arguments if one.startswith("tests")]


def test_make_test_and_make_system_run_every_test_of_real_processes() -> None:
    *_, quick = _calls()
    (others,) = _calls("system")
    at = quick.index("-m") + 1
    assert (quick.pop(at), others.pop(at)) == ("quick and not long", "not quick and not long")
    assert quick == others
    assert quick[0] == "pytest"
    assert quick[at:] == [*REAL]


def test_coverage_is_bounded() -> None:
    found = [one for call in _calls(COVERAGE="1") for one in call if one.startswith("--fail")]
    assert found == ["--fail-under=100", "--fail-under=92"]


def test_arguments_select_tests() -> None:
    assert _calls("tests/core", "-x") == [["pytest", "-q", "tests/core", "-x"]]


def test_continuous_integration_runs_both() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == [
        "make test COVERAGE=1",
        "make system",
        "make check",
    ]
    makefile = (ROOT / "Makefile").read_text()
    for target, script in (
        ("test", "COVERAGE=$(COVERAGE) scripts/test.sh"),
        ("system", "scripts/test.sh system"),
    ):
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert recipe
        assert recipe[1].splitlines()[-1] == f"\t@{script}"


def test_quick_tests_are_of_real_parts_and_not_long() -> None:
    for path in modules(TESTS):
        if "mark.quick" not in text(path):
            continue
        for name, marks in _marks(path).items():
            if "quick" in marks:
                assert path.relative_to(ROOT).parts[1] in {Path(one).name for one in REAL}, (
                    f"{shown(path)}: {name}: make test runs it anyway"
                )
                assert "long" not in marks, f"{shown(path)}: {name}: quick and long"


def test_every_real_part_has_a_quick_test() -> None:
    plugins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    databases = {path.stem for path in (PRODUCT / "store" / "databases").glob("*.py")}
    parts = {"engines": ENGINES, "fleets": FLEETS, "volumes": VOLUMES}
    assert {name: {*plugins[f"lading.{name}"]} for name in parts} == {
        name: {*tests} for name, tests in parts.items()
    }
    assert {*DATABASES} <= databases
    refuse(
        f"{part}: {where} is no quick test"
        for part, where in [
            pair for tests in (*parts.values(), DATABASES, CLIENTS) for pair in tests.items()
        ]
        if "quick" not in _marks(TESTS / where.split("::")[0]).get(where.split("::")[1], set())
    )
