"""The client on a simulated Windows: its modules are imported, and files come and go, in an
interpreter without the names and modules that this system lacks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.client.systems.real import OF_UNIX, unexpected

_ROOT = Path(__file__).parents[3]
_TRANSFER = """
import asyncio, os, sys
from pathlib import Path
from lading.testing.blocks import BlockStore
from tests.client.systems.windows import become_windows
for name in [*sys.modules]:
    # Imported again without the names.
    if name.startswith("lading.") and not name.startswith("lading.testing"):
        del sys.modules[name]
become_windows()
from lading.client.files.downloads import download
from lading.client.files.folders import PathFolder, open_folder
from lading.client.files.collections import CollectionWriter
from lading.process import portable

async def transfer(folder):
    blocks = BlockStore().client
    large = os.urandom(3 << 20)
    (folder / "large").write_bytes(large)
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("d/e", b"line\\r\\n")
        await writer.add_file("large", folder / "large")
        tree = await writer.finish_tree()
    for _ in range(2):
        await download(blocks, tree, folder / "out")
    assert (folder / "out/d/e").read_bytes() == b"line\\r\\n"
    assert (folder / "out/large").read_bytes() == large
    async with CollectionWriter(blocks) as writer:
        await writer.add_bytes("d/aux.txt", b"")
        tree = await writer.finish_tree()
    try:
        await download(blocks, tree, folder / "refused")
    except Exception as error:
        print(error.message)

folder = Path(sys.argv[1])
assert portable.IS_WINDOWS and isinstance(open_folder(folder), PathFolder)
asyncio.run(transfer(folder))
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_modules_of_the_client_are_imported() -> None:
    done = _run("-m", "tests.client.systems.windows")
    assert done.returncode == 0, done.stderr[-2000:]
    faults = json.loads(done.stdout)
    assert {name for name, fault in faults.items() if "fcntl" in fault} == OF_UNIX
    assert unexpected(faults, is_windows=True) == {}


def test_files_come_and_go(tmp_path: Path) -> None:
    done = _run("-c", _TRANSFER, str(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("d/aux.txt: Windows has no such name")
