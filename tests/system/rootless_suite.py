"""The conformance suite of engines, run by an ordinary user in namespaces of its own.

    python -m tests.system.rootless_suite DIRECTORY KIND FILE [arguments of pytest]

KIND is how a container gets its root (`RootKind`), or `ids`: by an overlay, with the
subordinate ids of the user. FILE has the tests, "" for this one.

`test_rootless` starts it. It is a program, since a process with several threads cannot enter a user
namespace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor import linux, rootless
from lading.supervisor.engines.rootless_engine import RootlessEngine
from lading.supervisor.rootless import RootKind
from lading.supervisor.subordinate_ids import find_ids
from lading.testing.conformance.engines import Kit
from lading.testing.conformance.first_process import FirstProcessSuite
from lading.testing.conformance.isolation import IsolatingEngineSuite
from lading.testing.conformance.walls import WALLS
from lading.testing.images import (
    PROGRAMS,
    ArchiveImage,
    first_layer,
    make_archive,
    make_layer,
    tiny_image,
)
from tests.reality import need_program

_OWNING = ("/bin/cp", "/bin/chown")


@pytest.fixture
def clean_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory in which no mount may be left."""
    yield tmp_path
    assert linux.mounts_below(str(tmp_path)) == []


class TestRootless(FirstProcessSuite, IsolatingEngineSuite):
    """The suite on the native engine of an ordinary user."""

    @pytest.fixture
    def kit(self, clean_directory: Path) -> Kit:
        inside = rootless.entered()
        return Kit(
            RootlessEngine,
            clean_directory,
            need_program=need_program,
            is_of_user=True,
            walls=WALLS["native, ordinary user"],
            user_ids=inside.ids if inside else 1,
        )

    async def test_owners_of_files_are_those_of_the_image(self, kit: Kit) -> None:
        if kit.user_ids == 1:
            pytest.skip("this user has one id")
        own = make_layer({"own": b"mine\n"}, modes={"own": 0o600}, owner=(1000, 1001))
        kit.image = ArchiveImage(
            *make_archive([first_layer(tiny_image(programs=(*PROGRAMS, *_OWNING))[1]), own])
        )
        made = kit.bind("/made")
        script = "ls -n /own; cp -p /own /made; chown 5:6 /made/own; ls -n /made/own"
        done, out, err = await kit.run(script, binds=(made,))
        assert (done.code, err) == (0, "")
        assert [line.split()[2:4] for line in out.splitlines()] == [["1000", "1001"], ["5", "6"]]
        found = (Path(made.source) / "own").stat()
        assert (found.st_uid, found.st_gid) == (5, 6)


def main(directory: Path, kind: str, file: str, arguments: list[str]) -> int:
    """Enter, and run the tests of a file; the exit code of pytest."""
    if kind == "ids":
        rootless.enter(directory, ids=find_ids(os.geteuid()).ids)
    else:
        rootless.enter(directory, RootKind(kind))
    linux.leave_mount_namespace()
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", str(directory / "tests")]
    return pytest.main(
        [*options, "--override-ini", "python_files=*.py", file or __file__, *arguments]
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
