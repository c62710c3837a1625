"""Commands over a slow link that is cut for a while: each ends right."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.slow_link import SlowLink
from tests.system.test_own_site import Home

pytestmark = pytest.mark.system
_CUT = float(os.environ.get("LADING_TEST_CUT", "6"))
"""Seconds of a cut."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[tuple[SlowLink, Home]]:
    """A link to a site, and the home of a user who is logged in through it."""
    site, laptop = Home(tmp_path / "site"), Home(tmp_path / "laptop")
    done = site.lading("up", "--detach", "--listen", "127.0.0.1:0")
    assert done.returncode == 0, done.stderr
    try:
        lines = (site.data / "env").read_text().splitlines()
        env = dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line)
        (tmp_path / "token").write_text(env["ARVADOS_API_TOKEN"].strip("'\""))
        port = int(env["ARVADOS_API_HOST"].rpartition(":")[2])
        slow = SlowLink(port, delay=0.1, loss=0.02)
        with slow.running():
            words = [
                "login", f"https://127.0.0.1:{slow.port}", "--name", "far",
                "--token-file", str(tmp_path / "token"),
            ]  # fmt: skip
            (fingerprint,) = re.findall(
                r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", laptop.lading(*words).stderr
            )
            done = laptop.lading(*words, "--fingerprint", fingerprint)
            assert done.returncode == 0, done.stderr
            yield slow, laptop
    finally:
        site.lading("down")


def _cut_once(slow: SlowLink, laptop: Home, *words: str) -> str:
    """Run a command, cut its connection while bytes pass, and mend it; standard error."""
    before = slow.passed
    process = laptop.begin(*words)
    until = time.monotonic() + 30
    while slow.passed < before + (1 << 20) and time.monotonic() < until:
        time.sleep(0.05)
    slow.cut()
    time.sleep(_CUT)
    slow.cut(False)
    try:
        out, err = process.communicate(timeout=_CUT + 45)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    assert process.returncode == 0, (out, err)
    return err


def test_files_come_and_go_over_a_cut(link: tuple[SlowLink, Home], tmp_path: Path) -> None:
    slow, laptop = link
    content = os.urandom(5 << 20)
    (tmp_path / "large").write_bytes(content)
    said = _cut_once(slow, laptop, "put", "--name", "c", str(tmp_path / "large"))
    if _CUT > 5:
        assert "trying again for 5 minutes" in said
    _cut_once(slow, laptop, "get", "c", str(tmp_path / "out"))
    assert (tmp_path / "out/large").read_bytes() == content
