"""The life cycle, and all that it uses, leave the process alone: one process may drive many."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lading.supervisor

ROOT = Path(lading.supervisor.__file__).parent
# Programs of their own, with a process each: supervisors, launchers of ranks, trials in a child.
PROCESSES = ("process", "gang", "__main__.py", "rootless_trial.py")
FORBIDDEN = {
    "os": {
        "_exit", "chdir", "chroot", "fchdir", "fork", "nice", "putenv", "setegid", "seteuid",
        "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid", "setsid",
        "setuid", "umask", "unsetenv",
    },
    "sys": {"exit", "stdin", "stdout", "stderr", "setrecursionlimit"},
    "signal": {"signal", "set_wakeup_fd", "setitimer", "alarm", "pthread_sigmask"},
    "resource": {"setrlimit"},
    "asyncio": {"run"},
    "gc": {"disable", "freeze"},
    "faulthandler": {"enable", "register"},
    "locale": {"setlocale"},
}  # fmt: skip
MODULES = sorted(
    path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in PROCESSES
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_of_the_life_cycle_changes_its_process(path: Path) -> None:
    found = [
        f"{path.name}:{node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in FORBIDDEN.get(node.value.id, ())
    ]
    assert found == []


@pytest.mark.parametrize("path", sorted((ROOT / "lifecycle").glob("*.py")), ids=lambda p: p.name)
def test_the_steps_have_no_state_of_their_own(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
    containers = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp)
    values = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    assert not [value for value in values if isinstance(value, containers)]
