"""Live mounts: opened below their root, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.containers.mounting.mount_plan import BindMount
from lading.core.containers.mounting.mount_steps import LivePath
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.inputs.live_directories import LiveDirectories, primary_group
from lading.supervisor.supervisor_config import LiveRoot
from tests.reality import need_root

OWNER = 43210
PRIMARY = 54321


@pytest.fixture
def root(tmp_path: Path) -> Path:
    need_root()
    made = tmp_path / "root"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "file").write_text("x")
    (made / "out").symlink_to(tmp_path)
    (made / "a" / "link").symlink_to("file")
    os.mkfifo(made / "fifo")
    os.chown(made, OWNER, OWNER + 1)
    os.chown(made / "a" / "b", OWNER, 0)
    return made


@pytest.fixture
def live(root: Path) -> Iterator[LiveDirectories]:
    made = LiveDirectories(
        {
            "/live": LiveRoot(directory=str(root), is_writable=True),
            "/read": LiveRoot(directory=str(root)),
            "/roots": LiveRoot(directory=str(root / "a"), is_writable=True),
            "/group": LiveRoot(directory=str(root / "a" / "b"), is_writable=True),
            "/gone": LiveRoot(directory=str(root / "none")),
        },
        {OWNER: PRIMARY}.get,
    )
    yield made
    made.close()


def mount(root: str, path: str = "", *, readonly: bool = False) -> tuple[BindMount, LivePath]:
    place = LivePath(root, path)
    return BindMount(place, "/in", readonly), place


@pytest.mark.parametrize("path", ["", "a/b", "a/file"])
def test_a_place_is_held_open(live: LiveDirectories, root: Path, path: str) -> None:
    bind = live.bind(*mount("/live", path))
    assert (bind.target, bind.readonly) == ("/in", False)
    assert bind.live is not None
    assert (bind.live.user, bind.live.group) == (OWNER, OWNER + 1)
    assert bind.live.further_groups == (PRIMARY,)
    # The path may lead elsewhere afterwards.
    expected = (root / path).stat().st_ino
    (root / "a").rename(root / "moved")
    assert Path(bind.source).stat().st_ino == expected


@pytest.mark.parametrize(
    ("name", "path", "fault", "failure"),
    [
        ("/live", "none", "/live/none: No such file", Failure.USER),
        ("/live", "out", "symbolic link", Failure.USER),
        ("/live", "out/x", "symbolic link", Failure.USER),
        ("/live", "a/link", "symbolic link", Failure.USER),
        ("/live", "fifo", "no directory or regular file", Failure.USER),
        ("/read", "a", "not writable on this machine", Failure.NODE),
        ("/roots", "b", r"belongs to root; .* chown -R USER:GROUP", Failure.NODE),
        ("/group", "", rf"the group of root; .* chown -R {OWNER}:{PRIMARY} ", Failure.NODE),
        ("/other", "", "offers no live directory /other", Failure.NODE),
    ],
)
def test_what_is_refused(
    live: LiveDirectories, name: str, path: str, fault: str, failure: Failure
) -> None:
    with pytest.raises(ExecutionError, match=fault) as caught:
        live.bind(*mount(name, path))
    assert caught.value.failure is failure


def test_a_directory_of_root_may_be_read(live: LiveDirectories) -> None:
    assert live.bind(*mount("/roots", "b", readonly=True)).readonly
    with pytest.raises(ExecutionError, match="No such file"):
        live.bind(*mount("/gone", readonly=True))


def test_the_primary_group_of_a_user() -> None:
    assert primary_group(0) == 0
    assert primary_group(OWNER) is None


def test_sources_are_closed(live: LiveDirectories) -> None:
    bind = live.bind(*mount("/read", readonly=True))
    assert bind.live is not None
    live.close()
    live.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(bind.live.descriptor)
