"""The conformance suite of engines, run by an ordinary user in namespaces of its own.

    python -m tests.system.rootless_suite DIRECTORY KIND FILE [arguments of pytest]

KIND is how a container gets its root (`RootKind`); FILE has the tests, "" for this one.

`test_rootless` starts it. It is a program, since a process with several threads cannot enter a user
namespace.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor import linux, rootless
from lading.supervisor.engines.rootless_engine import RootlessEngine
from lading.supervisor.rootless import RootKind
from lading.testing.conformance.engines import Kit
from lading.testing.conformance.isolation import IsolatingEngineSuite
from lading.testing.conformance.walls import WALLS
from tests.reality import need_program


@pytest.fixture
def clean_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory in which no mount may be left."""
    yield tmp_path
    assert linux.mounts_below(str(tmp_path)) == []


class TestRootless(IsolatingEngineSuite):
    """The suite on the native engine of an ordinary user."""

    @pytest.fixture
    def kit(self, clean_directory: Path) -> Kit:
        return Kit(
            RootlessEngine,
            clean_directory,
            need_program=need_program,
            is_of_user=True,
            walls=WALLS["native, ordinary user"],
        )


def main(directory: Path, kind: RootKind, file: str, arguments: list[str]) -> int:
    """Enter, and run the tests of a file; the exit code of pytest."""
    rootless.enter(directory, kind)
    linux.leave_mount_namespace()
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(directory / "tests")]
    return pytest.main(
        [*options, "--override-ini", "python_files=*.py", file or __file__, *arguments]
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), RootKind(sys.argv[2]), sys.argv[3], sys.argv[4:]))
