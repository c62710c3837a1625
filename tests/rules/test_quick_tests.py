"""`make test` and `make system` together run every test; `make test` runs one of each real part."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.levels import LEVELS, NIGHTLY, REAL, table
from tests.rules.sources import PRODUCT, ROOT, TESTS, modules, refuse, shown, text, tree

SCRIPT: Final = ROOT / "scripts" / "test.sh"
# Of each kind: name of the part, and a quick test with it. Names of plug-ins are those of
# pyproject.toml.
ENGINES: Final = dict.fromkeys(
    ("native", "native-crun", "docker", "podman"),
    "system/test_supervisor.py::test_engines_give_equal_outputs",
)
FLEETS: Final = {
    "local": "system/test_up.py::test_it_stops_and_starts_again_with_the_same_records",
    "slurm": "system/test_slurm.py::test_output_log_and_exit_code_come_back",
    "batch": "system/test_gridengine.py::test_output_log_and_exit_code_come_back",
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


def _calls(*arguments: str) -> list[list[str]]:
    """The programs that the script starts, in their order, with their arguments."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        programs, script = top / ".venv" / "bin", top / "scripts" / "test.sh"
        programs.mkdir(parents=True)
        script.parent.mkdir()
        shutil.copy(SCRIPT, script)
        for name in ("coverage", "pytest", "python"):
            (programs / name).write_text(
                '#!/bin/sh\nprintf "%s\\t" "${0##*/}" "$@" >>calls\necho >>calls\n'
            )
            (programs / name).chmod(0o755)
        subprocess.run([script, *arguments], check=True, timeout=60)
        lines = (top / "calls").read_text().splitlines()
    return [line.removesuffix("\t").split("\t") for line in lines]


def _pytest_calls(*arguments: str) -> list[list[str]]:
    """The arguments of each call of pytest, also of one under coverage."""
    calls = [call for call in _calls(*arguments) if "pytest" in call]
    return [call[call.index("pytest") + 1 :] for call in calls]


def marks_of(path: Path) -> dict[str, set[str]]:
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
    core, modules_, _ = _pytest_calls()
    assert core[-1] == "tests/core"
    assert modules_[-len(REAL) - 1 :] == [f"--ignore={one}" for one in ("tests/core", *REAL)]
    (covered,) = _pytest_calls("coverage")
    assert covered[-len(REAL) :] == [f"--ignore={one}" for one in REAL]
    for arguments in (core, modules_, covered):
        assert "-m" not in arguments
        assert not [one for one in arguments if one.startswith("tests") and one != "tests/core"]


def test_make_test_and_make_system_run_every_test_of_real_processes() -> None:
    *_, quick = _pytest_calls()
    (others,) = _pytest_calls("system")
    marks = {level.name: level.marks for level in LEVELS}
    at = quick.index("-m") + 1
    assert (quick.pop(at), others.pop(at)) == (marks["test"], marks["system"])
    assert (marks["test"], marks["system"]) == ("quick and not long", "not quick and not long")
    assert quick == others
    assert quick[at:] == [*REAL]


def test_coverage_is_bounded() -> None:
    for arguments, source, least in (
        (("test",), "lading.core", 100),
        (("coverage",), "lading", 92),
    ):
        runs = [call for call in _calls(*arguments) if call[0] == "coverage"]
        assert [call[1:3] for call in runs[:1]] == [["run", f"--source={source}"]]
        assert runs[-1][-1] == f"--fail-under={least}"


def test_arguments_select_tests() -> None:
    assert _calls("tests/core", "-x") == [["pytest", "-q", "tests/core", "-x"]]


def test_continuous_integration_runs_what_a_change_can_reach() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == [
        "make test",
        "make check",
        'make system BASE="${BASE:-.ci/base}"',
    ]
    for target, command in (
        ("test", "scripts/test.sh"),
        ("system", "scripts/test.sh system $(BASE)"),
        ("coverage", "scripts/test.sh coverage"),
        ("nightly", "$(BIN)/python -m tests.nightly $(STEPS)"),
    ):
        assert _recipe(target)[-1] == f"\t@{command}"


def test_every_long_test_is_in_a_step_of_the_night() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipes = "\n".join(line for step in NIGHTLY for line in _recipe(step.target))
    names = dict(re.findall(r"^(\w+) := (.*)$", makefile, re.MULTILINE))
    for name in ("LONG", "SESSIONS"):
        recipes = recipes.replace(f"$({name})", names[name])
    refuse(
        f"{path.relative_to(ROOT)}: no step of tests/levels.py runs it"
        for path in modules(TESTS)
        if re.search(r"mark\.long\b", text(path))
        and "long" in set().union(*marks_of(path).values())
        if not any(
            word in recipes
            for word in (path.name.removeprefix("test_"), f"{path.parent.relative_to(ROOT)} ",
                         f"{path.parent.relative_to(ROOT)}\n")
        )
    )  # fmt: skip


def test_the_levels_are_documented() -> None:
    page = (ROOT / "docs" / "contributing.md").read_text()
    assert f"\n{table()}\n" in page


def _recipe(target: str) -> list[str]:
    """The lines below a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe, f"Makefile has no {target}"
    return recipe[1].splitlines()


def test_quick_tests_are_of_real_parts_and_not_long() -> None:
    for path in modules(TESTS):
        if "mark.quick" not in text(path):
            continue
        for name, marks in marks_of(path).items():
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
        if "quick" not in marks_of(TESTS / where.split("::")[0]).get(where.split("::")[1], set())
    )
