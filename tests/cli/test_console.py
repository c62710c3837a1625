"""The installed command where nothing else is installed, as after `pip install --no-deps`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lading import __version__
from tests.hpc_daemon import Rig

ROOT = Path(__file__).parents[2]
ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["lading"]
BARE = (
    "import sys; sys.path.append({src!r}); sys.argv[0] = 'lading'; "
    "from {module} import {name}; sys.exit({name}())"
).format(src=str(ROOT / "src"), module=ENTRY.partition(":")[0], name=ENTRY.partition(":")[2])
"""What the console script does, for a Python without site-packages (-S)."""


def _lading(*arguments: str, bare: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", *(["-S"] if bare else []), "-c", BARE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={}, check=False)


def test_the_daemon_needs_nothing_but_python(tmp_path: Path) -> None:
    rig = Rig(tmp_path, program=(sys.executable, "-I", "-S", "-c", BARE, "hpc", "daemon"))
    rig.up()
    try:
        assert rig.query()["codeStatus"] == "Waiting"
    finally:
        rig.down()


def test_what_else_is_missing_is_said() -> None:
    done = _lading("run", "true")
    assert done.returncode == 1
    assert done.stderr.startswith("lading: click is not installed")
    assert done.stderr.count("\n") == 1


def test_the_help_of_the_daemon_is_the_same_everywhere() -> None:
    bare, full = (_lading("hpc", "daemon", "--help", bare=one) for one in (True, False))
    assert (bare.returncode, bare.stdout) == (0, full.stdout)
    assert "usage: lading hpc daemon" in bare.stdout
    through = [
        sys.executable,
        "-c",
        "from lading.cli.main import main; main()",
        "hpc",
        "daemon",
        "--help",
    ]
    assert (
        subprocess.run(through, capture_output=True, text=True, timeout=60, check=True).stdout
        == bare.stdout
    )


def test_everything_else_goes_to_the_command_line() -> None:
    assert _lading("--version", bare=False).stdout == f"lading {__version__}\n"
    assert _lading("hpc", "xyzzy", bare=False).returncode == 2


@pytest.mark.parametrize("module", ["run", "mapping", "requests", "top"])
def test_a_call_of_the_server_imports_little(module: str) -> None:
    """Each of these takes 10 to 150 ms to import, which each call would pay."""
    costly = [
        "aiohttp", "websockets", "yarl", "asyncssh", "cryptography", "starlette", "uvicorn", "yaml",
        "rich",
    ]  # fmt: skip
    heavy = [
        "lading.client.images", "lading.client.files.deposits", "lading.core.data.filetree",
        "lading.cli.files.data", "lading.wiring", "lading.api", "lading.supervisor",
    ]  # fmt: skip
    code = (
        f"import sys, lading.cli.main, lading.cli.running.{module};"
        f"print(*sorted(set(sys.modules) & {{*{costly + heavy!r}}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_streams_that_are_closed_are_replaced() -> None:
    code = (
        "import os, sys; from lading.cli.console import open_streams; open_streams()\n"
        "print('x', flush=True); print('x', file=sys.stderr, flush=True); sys.stdin.read()\n"
        "sys.exit(os.pipe()[0])"
    )
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    # The next file has none of their numbers.
    assert subprocess.run(shell, check=False, timeout=60).returncode > 2


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("utf-8", "├ \\udcff é"),
        ("ascii", "├ \\udcff é"),
        ("latin-1", "? ? é"),
    ],
)
def test_characters_that_the_locale_lacks(encoding: str, shown: str) -> None:
    code = (
        "import sys; from lading.cli.console import open_streams; open_streams()\n"
        r"print('\u251c \udcff \xe9')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode("latin-1" if encoding == "latin-1" else "utf-8").strip() == shown


def test_ctrl_c_while_the_command_line_is_imported() -> None:
    """It ends the program by the signal, without a traceback."""
    code = (
        "import os, signal, sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Interrupted(MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'lading.cli.main': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.argv = ['lading', '--version']\n"
        "from lading.cli.console import main; main()\n"
    )
    hearing = ("env", "--default-signal=INT")
    words = [*hearing, sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
