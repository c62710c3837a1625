"""Faults of paths are errors of the tree, and the exceptions that programs expect of files."""

from __future__ import annotations

import pytest

from lading.client.remote_files import faults
from lading.core.errors import LadingError


@pytest.mark.parametrize(
    ("fault", "builtin"),
    [
        (faults.NoSuchFile, FileNotFoundError),
        (faults.FileIsThere, FileExistsError),
        (faults.IsDirectory, IsADirectoryError),
        (faults.IsNoDirectory, NotADirectoryError),
        (faults.NotPermitted, PermissionError),
    ],
)
def test_both_kinds(fault: type[LadingError], builtin: type[OSError]) -> None:
    error = fault("a/b: is not as it should be")
    assert isinstance(error, builtin)
    assert error.message == str(error) == "a/b: is not as it should be"
