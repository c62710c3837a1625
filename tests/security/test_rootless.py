"""Attacks from containers of an ordinary user."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.testing.ordinary_user import ordinary_user
from tests.reality import need_program
from tests.system.test_rootless import run_suite

pytestmark = pytest.mark.system


@pytest.mark.attack("leaves a container of an ordinary user, takes its memory or its processes")
def test_attacks_on_the_native_engine_of_an_ordinary_user() -> None:
    need_program("crun")
    with ordinary_user(1) as user:
        file = str(Path(__file__).with_name("rootless_attacks.py"))
        code, said = run_suite(user, "overlay", file=file)
    assert code == 0, said
