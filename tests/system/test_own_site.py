"""The user's own site: commands start it in the background, and it ends after an idle time."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lading.client.site import connect
from tests.reality import need_program, need_root
from tests.system.cluster import LADING

pytestmark = pytest.mark.system


class Home:
    """A home directory of a user who has configured nothing."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "share" / "lading"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ARVADOS_", "LADING_"))
        } | {
            "HOME": str(directory),
            "XDG_DATA_HOME": str(directory / "share"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "XDG_CACHE_HOME": str(directory / "cache"),
        }

    def configure(self, text: str) -> None:
        self.data.mkdir(parents=True)
        (self.data / "config.yml").write_text(text)

    def begin(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [LADING, *arguments],
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lading(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.begin(*arguments, **variables)
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    @property
    def record(self) -> dict[str, Any] | None:
        """The record of the process that serves."""
        try:
            record: dict[str, Any] = json.loads((self.data / "up.json").read_text())
        except FileNotFoundError:
            return None
        return record


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.lading("down")


def _wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.mark.quick
def test_of_two_commands_at_once_one_starts_the_site(home: Home) -> None:
    running = [home.begin("request", "list") for _ in range(2)]
    ends = [(process.communicate(timeout=100), process.returncode) for process in running]
    assert [code for _, code in ends] == [0, 0]
    messages = "".join(err for (_, err), _ in ends)
    assert messages.count("lading: started your site; lading down stops it\n") == 1
    # It is there from now on.
    assert "started your site" not in home.lading("request", "list").stderr
    assert "stopped: process" in home.lading("down").stderr


@pytest.mark.quick
def test_a_command_without_a_server_gives_a_result(home: Home) -> None:
    need_root()
    need_program("crun")
    added = home.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "echo")
    assert "lading: started your site; lading down stops it\n" in added.stderr
    done = home.lading("run", "--", "sh", "-c", "echo result")
    assert (done.returncode, done.stdout) == (0, "result\n")


@pytest.mark.quick
def test_nothing_is_started_for_those_who_do_not_want_it(home: Home) -> None:
    run = ("run", "--image", "tools:1", "--", "true")
    for done in (
        home.lading("run", "--no-start", *run[1:]),
        home.lading("map", "--no-start", "--items", "/*", *run[1:]),
        home.lading(*run, LADING_START="never"),
    ):
        assert (done.returncode, "no server: start one with" in done.stderr) == (125, True)
    named = {"ARVADOS_API_HOST": "127.0.0.1:1", "ARVADOS_API_TOKEN": "v2/a/b"}
    assert "127.0.0.1:1: cannot be reached" in home.lading(*run, **named).stderr
    assert not home.data.exists()


@pytest.mark.quick
def test_a_start_that_fails_tells_its_log(home: Home) -> None:
    home.configure("Local: {NoSuchKey: 1}\n")
    done = home.lading("request", "list")
    assert done.returncode == 1
    assert "lading: your site did not start: lading up did not start:" in done.stderr
    assert "NoSuchKey" in done.stderr
    assert "up.log" in done.stderr


def test_it_ends_once_nothing_is_left_to_do(home: Home) -> None:
    need_root()
    need_program("crun")
    home.configure("Local: {IdleShutdown: 3}\n")
    home.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "echo")
    done = home.lading("run", "--detach", "--", "sh", "-c", "sleep 6; echo done")
    began = time.monotonic()
    _wait_until(lambda: home.record is None)
    # It did not end while the container ran.
    assert time.monotonic() - began > 6
    # The next command starts it again.
    again = home.lading("request", "logs", done.stdout.strip())
    assert "started your site" in again.stderr
    assert again.stdout == "done\n"


def test_a_program_that_is_idle_for_longer_starts_it_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(os.environ) - set(home.environment):
        monkeypatch.delenv(name)
    for name, value in home.environment.items():
        monkeypatch.setenv(name, value)
    with connect() as site:
        assert home.record is not None
        home.lading("down")
        user = site.call(site.api.get("users", "current"))
    assert user["is_admin"]


@pytest.mark.quick
def test_a_site_in_a_terminal_does_not_end_by_itself(home: Home) -> None:
    home.configure("Local: {IdleShutdown: 0.2}\n")
    process = home.begin("up")
    assert process.stdout is not None
    try:
        assert "ready" in process.stdout.readline()
        time.sleep(2)
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.quick
def test_a_port_that_is_taken_is_no_obstacle(home: Home, tmp_path: Path) -> None:
    another = Home(tmp_path / "another")
    try:
        for site in (home, another):
            assert site.lading("request", "list").returncode == 0
        addresses = [json.loads((one.data / "up.json").read_text())["address"]
                     for one in (home, another)]  # fmt: skip
        assert len(set(addresses)) == 2
        for site, address in zip((home, another), addresses, strict=True):
            assert f"https://{address}/ui/" in site.lading("open", "--print").stdout
    finally:
        another.lading("down")
