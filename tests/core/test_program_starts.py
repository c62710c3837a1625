from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lading.core.program_starts import faults, script


@pytest.mark.parametrize(
    ("code", "said", "remark"),
    [
        (0, "tool 1.0\n", ""),
        (1, "tool: unknown option\n", ""),
        (124, "", ""),
        (137, "", ""),
        (0, 'Can\'t exec "java": No such file or directory at fastqc\n', "Can't exec"),
        (127, "x: error while loading shared libraries: libx.so\n", "error while loading"),
        (127, "", "exit code 127"),
        (126, "sh: tool: Permission denied\n", "Permission denied"),
        (1, "ModuleNotFoundError: No module named 'x'\n", "ModuleNotFoundError"),
        (139, "", "signal SEGV"),
        (143, "", ""),
    ],
)
def test_what_keeps_a_program_from_starting(code: int, said: str, remark: str) -> None:
    found = faults(["tool"], f"\n=== 0 {code}\n{said}")
    assert bool(found) is bool(remark)
    assert remark in "".join(found)


def test_help_counts_where_the_version_fails() -> None:
    report = "\n=== 0 127\nx\n=== 0 0\nusage\n\n=== 1 1\nImportError: y\n=== 1 1\nImportError: z\n"
    (remark,) = faults(["good", "bad"], report)
    assert remark == "bad: does not start in the image: ImportError: y"
    assert faults(["untried"], "") == ()


def test_the_script_tries_each_program(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", script(["true", "no such; program"]).replace("cd /tmp", f"cd {tmp_path}")],
        capture_output=True,
        text=True,
        check=False,
    )
    (remark,) = faults(["true", "no such; program"], done.stdout)
    assert remark.startswith("no such; program: does not start in the image")
