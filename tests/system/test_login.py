"""A login from another home directory at a real site, whose certificate no store knows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lading.client.api import ApiClient
from lading.client.servers.environment import Server
from lading.core.policy.device_logins import code_of
from tests.system.test_own_site import Home

pytestmark = [pytest.mark.system, pytest.mark.quick]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A site; its address and its token."""
    home = Home(tmp_path / "site")
    done = home.lading("up", "--detach", "--listen", "127.0.0.1:0")
    assert done.returncode == 0, done.stderr
    try:
        lines = (home.data / "env").read_text().splitlines()
        yield dict(line.removeprefix("export ").split("=", 1) for line in lines if "=" in line)
    finally:
        home.lading("down")


def test_a_login_from_elsewhere(site: dict[str, str], tmp_path: Path) -> None:
    laptop = Home(tmp_path / "laptop")
    address = site["ARVADOS_API_HOST"]
    (tmp_path / "token").write_text(site["ARVADOS_API_TOKEN"].strip("'\"") + "\n")
    words = ("login", f"https://{address}", "--name", "lab", "--token-file", f"{tmp_path}/token")
    refused = laptop.lading(*words)
    assert refused.returncode == 1
    (fingerprint,) = re.findall(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", refused.stderr)
    wrong = laptop.lading(*words, "--fingerprint", "00:11")
    assert "has another fingerprint" in wrong.stderr
    done = laptop.lading(*words, "--fingerprint", fingerprint)
    assert done.returncode == 0, done.stderr
    assert "logged in at" in done.stderr
    # A token of the login's own, which a logout ends.
    saved = (tmp_path / "laptop/config/lading/sites.json").read_text()
    assert site["ARVADOS_API_TOKEN"].strip("'\"") not in saved
    who = json.loads(laptop.lading("--site", "lab", "whoami", "--json").stdout)
    assert (who["site"], who["login"]) == (address, "lab")
    (tmp_path / "file").write_text("content\n")
    assert laptop.lading("put", "--name", "c", str(tmp_path / "file")).returncode == 0
    assert laptop.lading("cat", "c/file").stdout == "content\n"
    assert "its token has ended" in laptop.lading("logout").stderr
    assert "no server" in laptop.lading("whoami", LADING_START="never").stderr


def test_a_login_that_a_person_allows(site: dict[str, str], tmp_path: Path) -> None:
    """The page is in tests/web/site; here its call is made for it."""
    laptop = Home(tmp_path / "laptop")
    address, token = site["ARVADOS_API_HOST"], site["ARVADOS_API_TOKEN"].strip("'\"")
    words = ("login", f"https://{address}", "--name", "lab", "--no-browser")
    refused = laptop.lading(*words)
    (fingerprint,) = re.findall(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", refused.stderr)
    with laptop.begin(*words, "--fingerprint", fingerprint) as login:
        assert login.stderr is not None
        lines = iter(login.stderr.readline, "")
        page = next(line for line in lines if line.startswith("https://"))
        (digest,) = parse_qs(urlsplit(page.strip()).query)["digest"]
        assert code_of(digest) in next(lines)
        asyncio.run(_allow(address, token, digest))
        assert login.wait(60) == 0
    who = json.loads(laptop.lading("--site", "lab", "whoami", "--json").stdout)
    assert who["site"] == address
    assert "its token has ended" in laptop.lading("logout").stderr


async def _allow(address: str, token: str, digest: str) -> None:
    async with Server(address=address, token=token, insecure=True).transport() as transport:
        api = ApiClient(transport, token)
        await api.create("api_client_authorizations", {}, secret_digest=digest)
