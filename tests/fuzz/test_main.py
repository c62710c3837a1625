"""What `python -m tests.fuzz` runs, and that one part does not keep another from running."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz import __main__ as program


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_part_of_0_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        program.main(
            ["--manifests", "0", "--calls", "0", "--bodies", "0", "--daemon", "12", "--ga4gh", "0"]
        )
        == 0
    )
    _, begins, told = _lines(capsys)
    assert begins == "HPC daemon: begins"
    assert told.endswith(", 0 faults")


def test_a_part_that_breaks_off_is_a_fault_and_the_next_one_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ConnectionResetError("gone")

    monkeypatch.setattr(program, "try_manifests", breaks)
    monkeypatch.setattr(program, "try_calls", lambda calls, seed: False)
    assert program.main(["--manifests", "1", "--calls", "0", "--bodies", "0", "--ga4gh", "0"]) == 1
    told = _lines(capsys)
    assert told[-3:] == [
        "ConnectionResetError: gone",
        "manifests: broken off",
        "HPC daemon: begins",
    ]
