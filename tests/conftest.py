"""What all tests may use."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import coverage
import hypothesis
import pytest

from tests.postgres import postgres

__all__ = ["postgres"]

# A command of a test starts no site in the background, unless the test asks for it.
os.environ["LADING_START"] = "never"

pytest_plugins = ["tests.time_limits"]

# No test measures time: an example takes longer on a busy machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture
def fake_driver(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver `fake` by its name: the product has no entry point for it."""
    directory = tmp_path_factory.mktemp("drivers")
    info = directory / "fake_driver-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-driver\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[lading.drivers]\nfake = lading.testing.cloud:open_fake\n"
    )
    monkeypatch.syspath_prepend(str(directory))


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A temporary directory on a disk, where that of `tmp_path` may be in memory below /dev."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the user between commands is kept apart from what the user keeps."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def pytest_sessionfinish() -> None:
    """Save what is covered before the process says that it has ended.

    pytest-xdist kills a process that takes more than ten seconds to exit then, as one with much
    memory may on a busy machine; the data that is saved at exit would be lost.
    """
    measured = coverage.Coverage.current()
    if measured is not None:
        measured.stop()
        measured.save()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts a job in the background has it ignore Ctrl-C, and so would all that it
    # starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
