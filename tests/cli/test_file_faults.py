"""Full disks, and files that this user may not use."""

from __future__ import annotations

import errno
import json

import pytest
from click.testing import CliRunner

from lading.cli.file_faults import text_of
from lading.cli.main import cli

DENIED = PermissionError(errno.EACCES, "Permission denied", "/tmp/named")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "", "/tmp/named"), "/tmp/named: no room is left on the disk"),
        (ExceptionGroup("", [OSError(errno.EDQUOT, "")]), "or a temporary one in /"),
        (DENIED, "/tmp/named: permission denied; choose another place"),
        (ExceptionGroup("", [ExceptionGroup("", [DENIED])]), "/tmp/named: permission denied"),
        (OSError(errno.EROFS, "", "/usr/x"), "/usr/x: its file system is read-only"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "TMPDIR names"),
    ],
)
def test_a_fault_is_one_line(error: Exception, told: str) -> None:
    def connect() -> None:
        raise error

    done = CliRunner().invoke(cli, ["request", "list"], obj=connect)
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert told in done.stderr
    # `run` passes on the exit code of a command: its own failure is 125.
    done = CliRunner().invoke(cli, ["run", "--json", "--", "x"], obj=connect)
    assert done.exit_code == 125
    answer = json.loads(done.stderr)["error"]
    assert told in answer["message"]
    assert answer["exit_code"] == 125


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        OSError(errno.EACCES, "Permission denied"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/tmp/named"),
        ExceptionGroup("", [DENIED, ValueError()]),
        ExceptionGroup("", [DENIED, FileNotFoundError(errno.ENOENT, "", "/x")]),
    ],
)
def test_other_faults_are_seen_whole(error: Exception) -> None:
    assert text_of(error) == ""
