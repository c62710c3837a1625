"""Scripts and notebooks as containers run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.iocontainers import InputFiles, Log, OutputFiles, Params, ResourceList, Wildcards
from snakemake.sourcecache import SourceCache
from snakemake_interface_common.exceptions import WorkflowError

from snakemake_executor_plugin_lading.job_runner import NamedList, Snakemake
from snakemake_executor_plugin_lading.scripts import step_of


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def workflow(here: Path) -> Any:
    return SimpleNamespace(
        config={"quality": 7}, sourcecache=SourceCache(here / "cache", here / "runtime")
    )


def job(here: Path, name: str, source: str, **params: Any) -> Any:
    (here / name).write_text(source)
    rule = SimpleNamespace(name="r", script=name, notebook=None, basedir=str(here))
    return SimpleNamespace(
        rule=rule,
        input=InputFiles(fromdict={"table": "a.txt"}),
        output=OutputFiles(["b.txt"]),
        params=Params(fromdict=params),
        wildcards=Wildcards(fromdict={"sample": "s1"}),
        log=Log(["job.log"]),
        resources=ResourceList(fromdict={"mem_mb": 100, "_cores": 9, "tmpdir": "/mine"}),
        threads=3,
    )


def run(step: Any, here: Path) -> subprocess.CompletedProcess[str]:
    """Run a step outside of a container: its mounts are files below `here`."""
    for target, mount in step.mounts.items():
        path = here / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = mount["content"]
        path.write_text(content if mount["kind"] == "text" else json.dumps(content))
    python = f"PATH={Path(sys.executable).parent}:$PATH"
    line = f"{python}; {step.line.replace('/lading/', f'{here}/lading/')}"
    return subprocess.run(
        ["bash", "-c", line], cwd=here, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_python_script_sees_its_job(here: Path, workflow: Any) -> None:
    source = """
from __future__ import annotations
from snakemake.script import snakemake as same
assert same is snakemake
print(snakemake.input.table, snakemake.input[0], snakemake.output, snakemake.params.get("no", 5))
print(snakemake.params.cut, snakemake.wildcards["sample"], snakemake.config, snakemake.threads)
print(snakemake.resources.mem_mb, snakemake.rule, __name__, __file__, snakemake.log_fmt_shell())
"""
    done = run(step_of(job(here, "s.py", source, cut=[1, 2]), workflow, 0), here)
    assert done.stdout.splitlines() == [
        "a.txt a.txt b.txt 5",
        "[1, 2] s1 {'quality': 7} 3",
        "100 r __main__ s.py  > job.log 2>&1",
    ], done.stderr


def test_a_fault_shows_the_line_of_the_script(here: Path, workflow: Any) -> None:
    done = run(
        step_of(job(here, "s.py", "x = 1\nraise ValueError('no column')\n"), workflow, 1), here
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [
        '  File "s.py", line 2, in <module>',
        "    raise ValueError('no column')",
        "ValueError: no column",
    ]


@pytest.mark.parametrize(("word", "is_equal"), [("pass", True), ("config", False)])
def test_what_a_script_does_not_mention_does_not_count(
    here: Path, workflow: Any, word: str, is_equal: bool
) -> None:
    one = job(here, "s.py", f"# {word}\n")
    first = step_of(one, workflow, 0)
    workflow.config["quality"] = 8
    one.threads = 2
    assert (step_of(one, workflow, 0) == first) is is_equal


def test_a_shell_script(here: Path, workflow: Any) -> None:
    source = 'echo "${snakemake_input[table]} ${snakemake_params[word]} ${snakemake[scriptdir]}"'
    done = run(step_of(job(here, "s.sh", source, word="it's"), workflow, 0), here)
    assert done.stdout == "a.txt it's /out\n", done.stderr


@pytest.mark.parametrize(
    ("name", "program", "begins"),
    [("s.R", "Rscript --vanilla", 'input = list("a.txt"'), ("s.jl", "julia", '"a.txt"')],
)
def test_scripts_of_other_languages_have_their_values(
    here: Path, workflow: Any, name: str, program: str, begins: str
) -> None:
    step = step_of(job(here, name, "the end"), workflow, 0)
    assert step.line == f"{program} /lading/0/script{Path(name).suffix}"
    (mount,) = step.mounts.values()
    assert begins.replace('"', "'") in mount["content"].replace('"', "'")
    assert mount["content"].endswith("the end")
    assert str(here) not in mount["content"]


def test_what_no_container_gets_is_named(here: Path, workflow: Any) -> None:
    with pytest.raises(WorkflowError, match="s.rs: scripts in Python, R, Julia and bash"):
        step_of(job(here, "s.rs", ""), workflow, 0)
    with pytest.raises(WorkflowError, match=r"rule r: lists.params: a object is no plain value"):
        step_of(job(here, "s.py", "", bad=object()), workflow, 0)


def test_named_ranges_and_redirections() -> None:
    found = NamedList(["a", "b", "c"], {"first": 0, "rest": [1, 3]})
    assert (found.first, found["rest"], str(found.rest)) == ("a", ["b", "c"], "b c")
    assert (list(found.keys()), dict(found.items())["first"]) == (["first", "rest"], "a")
    told = Snakemake({"lists": {"log": (["l"], {})}, "values": {}})
    assert told.log_fmt_shell(stdout=False, append=True) == " 2>> l"
    assert told.log_fmt_shell(stderr=False) == " > l"
    assert told.log_fmt_shell(stdout=False, stderr=False) == ""
