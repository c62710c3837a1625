from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lading.client.caches.tree_cache import TreeCache
from lading.core.errors import Invalid, Unavailable

PDHS = [f"{number:032x}+100" for number in range(5)]
PDH = PDHS[0]
HOLDER = """
import asyncio, sys
from pathlib import Path
from lading.client.caches.tree_cache import TreeCache

async def fill(path):
    print("filling", flush=True)
    (path / "f").write_bytes(b"other")
    if sys.argv[3] == "fill":
        await asyncio.Event().wait()

async def main():
    async with TreeCache(Path(sys.argv[1]), 1 << 20).lease(sys.argv[2], fill):
        print("leased", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


class Filler:
    """Writes one file of the given size and counts how often it was asked to."""

    def __init__(self, size: int = 3) -> None:
        self.calls = 0
        self._size = size

    async def __call__(self, path: Path) -> None:
        self.calls += 1
        await asyncio.sleep(0)
        (path / "d").mkdir()
        (path / "d" / "f").write_bytes(b"x" * self._size)
        (path / "link").symlink_to("d/f")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "trees"


def _hold(root: Path, where: str, pdh: str = PDH) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root), pdh, where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "filling\n"
    if where == "lease":
        assert process.stdout.readline() == "leased\n"
    return process


def _names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()} - {"ledger"}


async def test_whether_it_is_there_is_known_without_waiting(root: Path) -> None:
    cache = TreeCache(root, 1 << 20)
    assert not cache.holds(PDH)
    async with cache.lease(PDH, Filler()):
        assert cache.holds(PDH)
    assert cache.holds(PDH)


async def test_a_lease_is_a_read_only_directory(root: Path) -> None:
    async with TreeCache(root, 1 << 20).lease(PDH, Filler()) as path:
        assert (path / "d" / "f").read_bytes() == b"xxx"
        modes = [item.stat().st_mode & 0o777 for item in (path, path / "d", path / "d" / "f")]
        assert modes == [0o555, 0o555, 0o555]


async def test_filled_once_for_many_at_once_and_later(root: Path) -> None:
    filler, cache = Filler(), TreeCache(root, 1 << 20)

    async def use() -> None:
        async with cache.lease(PDH, filler) as path:
            assert (path / "d" / "f").exists()

    await asyncio.gather(*(use() for _ in range(10)))
    async with TreeCache(root, 1 << 20).lease(PDH, filler):
        assert filler.calls == 1
    assert _names(root) == {PDH, f"{PDH}.lock"}


async def test_a_failed_fill_leaves_nothing(root: Path) -> None:
    async def fail(path: Path) -> None:
        (path / "half").write_text("half")
        raise Unavailable("no")

    cache = TreeCache(root, 1 << 20)
    with pytest.raises(Unavailable):
        async with cache.lease(PDH, fail):
            pass
    assert _names(root) == set()
    async with cache.lease(PDH, Filler()) as path:
        assert (path / "d").is_dir()


async def test_the_least_recently_used_go_and_those_in_use_stay(root: Path) -> None:
    cache, filler = TreeCache(root, 300_000), Filler(100_000)
    async with cache.lease(PDHS[0], filler):
        for pdh in (PDHS[1], PDHS[2], PDHS[1], PDHS[3]):
            async with cache.lease(pdh, filler):
                pass
        assert {name for name in _names(root) if not name.endswith(".lock")} == {PDHS[0], PDHS[3]}
    async with cache.lease(PDHS[4], filler):
        pass
    assert PDHS[0] not in _names(root)


async def _make(cache: TreeCache, *pdhs: str) -> None:
    for pdh in pdhs:
        async with cache.lease(pdh, Filler()):
            pass


async def test_a_new_tree_needs_no_look_at_the_others(root: Path) -> None:
    cache = TreeCache(root, 1 << 20)
    await _make(cache, PDHS[0], PDHS[1])
    # A look at all would find it too large, and remove the one that is not used.
    (root / f"{PDHS[0]}.lock").write_text('{"bytes":10000000,"boot":"another"}')
    await _make(cache, PDHS[2])
    assert PDHS[0] in _names(root)


@pytest.mark.parametrize("ledger", ["", "nonsense", f"{1 << 30:020}\n"])
async def test_a_ledger_that_is_wrong_is_written_anew(root: Path, ledger: str) -> None:
    cache = TreeCache(root, 1 << 20)
    await _make(cache, PDHS[0], PDHS[1])
    right = int((root / "ledger").read_text())
    (root / "ledger").write_text(ledger)
    await _make(cache, PDHS[2])
    assert int((root / "ledger").read_text()) == right // 2 * 3
    assert {PDHS[0], PDHS[1], PDHS[2]} <= _names(root)


async def test_what_is_no_hash_is_invalid(root: Path) -> None:
    with pytest.raises(Invalid, match="not a portable data hash"):
        async with TreeCache(root, 1).lease("../x", Filler()):
            pass


async def test_a_directory_from_before_the_last_boot_is_made_anew(root: Path) -> None:
    filler = Filler()
    async with TreeCache(root, 1 << 20).lease(PDH, filler):
        pass
    (root / f"{PDH}.lock").write_text('{"bytes":1,"boot":"another"}')
    async with TreeCache(root, 1 << 20).lease(PDH, filler) as path:
        assert (path / "d" / "f").read_bytes() == b"xxx"
    assert filler.calls == 2


async def test_a_builder_that_was_killed_leaves_no_half_directory(root: Path) -> None:
    root.mkdir()
    builder = _hold(root, "fill")
    assert f"{PDH}.part" in _names(root)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    async with TreeCache(root, 1 << 20).lease(PDH, Filler()) as path:
        assert (path / "d" / "f").exists()
        assert not (path / "f").exists()
    assert _names(root) == {PDH, f"{PDH}.lock"}


async def test_another_process_is_waited_for_while_it_builds(root: Path) -> None:
    root.mkdir()
    builder, filler = _hold(root, "fill"), Filler()
    pauses: list[float] = []

    async def end_builder(seconds: float) -> None:
        pauses.append(seconds)
        builder.kill()
        builder.communicate()

    async with TreeCache(root, 1 << 20, sleep=end_builder).lease(PDH, filler):
        assert (len(pauses), filler.calls) == (1, 1)


async def test_another_process_shares_and_its_lease_is_respected(root: Path) -> None:
    root.mkdir()
    holder, filler = _hold(root, "lease"), Filler()
    try:
        cache = TreeCache(root, 1)
        async with cache.lease(PDH, filler) as path:
            assert (path / "f").read_bytes() == b"other"
        async with cache.lease(PDHS[1], filler):
            pass
        assert (root / PDH / "f").exists()
    finally:
        holder.communicate("")
    async with cache.lease(PDHS[2], filler):
        pass
    assert not (root / PDH).exists()


async def test_a_lock_file_that_was_replaced_is_not_trusted(root: Path) -> None:
    cache, filler = TreeCache(root, 1 << 20), Filler()
    holder = _hold(_made(root), "lease")

    async def evict(_: float) -> None:
        holder.communicate("")
        (root / f"{PDH}.lock").unlink()

    holder_of_all = TreeCache(root, 1 << 20, sleep=evict)
    (root / f"{PDH}.lock").write_text("{}")
    async with holder_of_all.lease(PDH, filler) as path:
        assert (path / "d" / "f").exists()
    async with cache.lease(PDH, filler):
        assert filler.calls == 1


def _made(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    return root


async def test_cancelling_while_it_fills_cleans_up(root: Path) -> None:
    begun = asyncio.Event()

    async def endless(path: Path) -> None:
        (path / "half").write_text("half")
        begun.set()
        await asyncio.Event().wait()

    async def use(fill: Callable[[Path], Awaitable[None]]) -> None:
        async with TreeCache(root, 1 << 20).lease(PDH, fill):
            pass

    task = asyncio.create_task(use(endless))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert _names(root) == set()


async def test_leftovers_of_a_removal_are_removed(root: Path) -> None:
    _made(root)
    (root / f"{PDH}.lock").write_text('{"bytes":999999,"boot":""}')
    (root / f"{PDH}.part").mkdir()
    async with TreeCache(root, 10).lease(PDHS[1], Filler()):
        pass
    assert _names(root) == {PDHS[1], f"{PDHS[1]}.lock"}
