from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account, ImageConfig, goarch
from lading.supervisor import linux
from lading.supervisor.engines.accounts import account_of, check_architecture


def test_users_are_looked_up_in_the_image(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("ann:x:5:6::/:/bin/sh\n")
    assert account_of("ann", tmp_path) == Account(5, 6)
    assert account_of("", tmp_path) == Account(0, 0)


def test_a_user_that_is_not_there_is_the_image_s_fault(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="'ghost' is not in its /etc/passwd") as caught:
        account_of("ghost", tmp_path)
    assert caught.value.failure is Failure.IMAGE


def test_an_image_for_another_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "has_emulators", lambda: False)
    check_architecture(ImageConfig(diff_ids=(), architecture=goarch(os.uname().machine)))
    with pytest.raises(ExecutionError, match="for s390x, and this machine is") as caught:
        check_architecture(ImageConfig(diff_ids=(), architecture="s390x"))
    assert caught.value.failure is Failure.IMAGE
