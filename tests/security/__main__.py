"""`python -m tests.security`: bandit, pip-audit and every attack; a table of the attacks.

Exits with 1 when an attack was not held, when bandit finds something, or when a dependency has a
known vulnerability. pip-audit needs the vulnerability data of the package index; where that cannot
be reached, the table says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.security.conftest import TABLE

ROOT = Path(__file__).parents[2]
_HELD = {"passed": "held", "skipped": "not run", "failed": "NOT HELD"}
_AUDIT_TIME = 180
_PYTEST = ("-m", "pytest", "-q", "-m", "long or not long", "tests/security")


def main(arguments: Sequence[str]) -> int:
    """Run everything and print the table; the exit code."""
    failed = [
        name for name, passed in (("bandit", _bandit()), ("pip-audit", _audit())) if not passed
    ]
    with tempfile.TemporaryDirectory() as directory:
        table = Path(directory, "attacks.jsonl")
        environment = {**os.environ, TABLE: str(table)}
        command = [sys.executable, *_PYTEST, *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        rows = read_table(table)
    _print(rows)
    not_held = [row for row in rows if row["outcome"] != "passed"]
    print(
        f"{len(rows)} attacks, {len(rows) - len(not_held)} held, "
        f"{len(not_held)} not held or not run"
    )
    return 1 if code or not_held or failed or not rows else 0


def _bandit() -> bool:
    command = [sys.executable, "-m", "bandit", "-q", "-r", "src", "-c", "pyproject.toml", "-ll"]
    passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    print(f"bandit: {'no finding of medium or high severity' if passed else 'FINDINGS, see above'}")
    return passed


def _audit() -> bool:
    """Whether no pinned dependency has a known vulnerability, as far as the data can be reached."""
    options = ["--progress-spinner", "off", "--disable-pip", "-f", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "-r", "requirements/run.txt"]
    try:
        found = subprocess.run(
            command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=_AUDIT_TIME
        )
        dependencies = json.loads(found.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        dependencies = []
    audited = [one for one in dependencies if "vulns" in one]
    vulnerable = [f"{one['name']} {one['version']}" for one in audited if one["vulns"]]
    if audited:
        print(
            f"pip-audit: {len(audited)} of {len(dependencies)} dependencies audited, "
            f"vulnerable: {', '.join(vulnerable) or 'none'}"
        )
    else:
        print("pip-audit: not run, the package index here has no vulnerability data")
    return not vulnerable


def read_table(table: Path) -> list[dict[str, str]]:
    """A row for each attack, with its worst outcome: one that was held may fail while it is cleaned
    up.
    """
    if not table.exists():
        return []
    rows: dict[str, dict[str, str]] = {}
    for line in table.read_text().splitlines():
        row = json.loads(line)
        known = rows.get(row["test"])
        if known is None or known["outcome"] != "failed":
            rows[row["test"]] = row
    return sorted(rows.values(), key=lambda row: row["test"])


def _print(rows: Sequence[dict[str, str]]) -> None:
    for row in rows:
        case = row["test"].partition("::")[2]
        case = case[case.index("[") :] if "[" in case else ""
        print(f"{_HELD[row['outcome']]:8}  {row['attack']} {case}".rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
