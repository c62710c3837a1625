from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account
from lading.supervisor.engines.accounts import account_of


def test_users_are_looked_up_in_the_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("ann:x:5:6::/:/bin/sh\n")
    assert account_of("ann", tmp_path) == Account(5, 6)
    assert account_of("", tmp_path) == Account(0, 0)


def test_a_user_that_is_not_there_is_the_image_s_fault(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="'ghost' is not in its /etc/passwd") as caught:
        account_of("ghost", tmp_path)
    assert caught.value.failure is Failure.IMAGE
