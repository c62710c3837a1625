"""Environments of other programs are made once, by one process, and removed when nobody uses
them.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests import levels
from tests.system import environments
from tests.system.environments import ENVIRONMENTS, ROOT, kept

LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lading-tests"


def fill(place: Path) -> None:
    """Make a directory whose only file counts how many times it was made."""
    place.mkdir()
    (place / "made").write_text("x")


def test_it_is_made_once_for_each_content() -> None:
    first = kept("tool", b"1", fill)
    (first / "made").write_text("used")
    assert kept("tool", b"1", fill) == first
    assert (first / "made").read_text() == "used"
    assert kept("tool", b"2", fill) != first
    assert kept("other", b"1", fill) != first


def test_of_two_at_once_one_makes_it_and_the_other_waits() -> None:
    makes = []
    is_making, goes_on = threading.Event(), threading.Event()

    def make(place: Path) -> None:
        makes.append(place)
        is_making.set()
        goes_on.wait()
        fill(place)

    threads = [threading.Thread(target=kept, args=("tool", b"1", make)) for _ in range(2)]
    threads[0].start()
    is_making.wait()
    threads[1].start()
    goes_on.set()
    for thread in threads:
        thread.join()
    assert len(makes) == 1


def test_a_directory_that_was_never_completed_is_made_anew(cache: Path) -> None:
    def fail(place: Path) -> None:
        fill(place)
        (place / "half").touch()
        raise AssertionError("no index")

    with pytest.raises(AssertionError, match="no index"):
        kept("tool", b"1", fail)
    assert sorted(path.name for path in kept("tool", b"1", fill).iterdir()) == ["complete", "made"]


def test_one_that_was_not_used_for_long_is_removed(cache: Path) -> None:
    used, unused = kept("tool", b"1", fill), kept("tool", b"2", fill)
    others = [kept("tool-of-others", b"2", fill), kept("other", b"2", fill)]
    for place in (unused, *others):
        os.utime(place / "complete", (LONG_AGO, LONG_AGO))
    half = cache / f"tool-{'0' * 16}"
    half.mkdir()
    os.utime(half, (LONG_AGO, LONG_AGO))
    kept("tool", b"1", fill)
    assert used.exists()
    assert all(place.exists() for place in others)
    assert not unused.exists()
    assert not half.exists()
    assert not list(cache.glob(f"{unused.name}*"))
    assert kept("tool", b"2", fill) == unused


def test_use_counts_from_the_last_time() -> None:
    place = kept("tool", b"1", fill)
    os.utime(place / "complete", (LONG_AGO, LONG_AGO))
    kept("tool", b"1", fill)
    kept("tool", b"2", fill)
    assert place.exists()


def test_each_has_its_lock_file_and_a_level() -> None:
    for pinned in ENVIRONMENTS.values():
        assert (ROOT / "requirements" / pinned.requirements).is_file()
        assert pinned.level in {*levels.NAMES, ""}


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("test", ["arvados-client", "snakemake", "ga4gh-clients"]),
        ("nightly", [name for name, pinned in ENVIRONMENTS.items() if pinned.level]),
    ],
)
def test_those_of_a_level_are_made_before_its_tests(
    level: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(environments, "environment", made.append)
    monkeypatch.setattr("sys.argv", ["environments", level])
    assert environments.main() == 0
    assert made == names
