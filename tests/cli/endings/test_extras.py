"""Messages about extras that are not installed."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from lading.cli.endings.extras import install_command, remedy


@pytest.mark.parametrize(
    ("prefix", "origin", "command"),
    [
        ("/home/ann/venv", "", "pip install 'lading[server]'"),
        ("/home/ann/.local/share/pipx/venvs/lading", "", "pipx install --force 'lading[server]'"),
        ("/home/ann/.local/share/uv/tools/lading", "", "uv tool install 'lading[server]'"),
        ("/opt/venv", "/src/lading", "pip install '/src/lading[server]'"),
        ("/opt/venv", "/d/lading-1.whl", "pip install '/d/lading-1.whl[server]'"),
    ],
)
def test_the_command_is_one_for_the_installer(prefix: str, origin: str, command: str) -> None:
    assert install_command("server", origin=origin, prefix=PurePosixPath(prefix)) == command


def test_a_checkout_stays_one() -> None:
    prefix = PurePosixPath("/src/lading/.venv")
    command = install_command("mcp", origin="/src/lading", prefix=prefix, is_editable=True)
    assert command == "pip install -e '/src/lading[mcp]'"


@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("uvicorn.config", "up", "'server'"),
        ("mfusepy", "mount", "'mount'"),
        ("cryptography.hazmat", "export", "'export'"),
        ("cryptography", "up", "'server'"),
    ],
)
def test_the_extra_is_that_of_the_command(module: str, command: str, extra: str) -> None:
    assert f"needs the extra {extra}" in remedy(ModuleNotFoundError(name=module), command)


def test_a_system_without_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ModuleNotFoundError(name="lading.wiring.up")
    assert "the wheel for Linux" in remedy(missing, "up")
    monkeypatch.setattr("sys.platform", "darwin")
    assert "needs Linux" in remedy(missing, "up")


def test_a_command_that_windows_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ModuleNotFoundError(name="fcntl")
    assert remedy(missing, "mount") == ""
    monkeypatch.setattr("sys.platform", "win32")
    assert remedy(missing, "mount").startswith("lading mount does not run on Windows; WSL")


def test_other_modules_are_none_of_an_extra() -> None:
    assert remedy(ModuleNotFoundError(name="lading.client.nothing"), "up") == ""
    assert remedy(ModuleNotFoundError(), "up") == ""
