"""lading login, logout and whoami, without a connection of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from lading.cli.accounts.login import user_name
from lading.cli.main import cli
from lading.client.servers.site_logins import SiteLogin, SiteLogins
from tests.cli.site import Site


@pytest.fixture
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteLogins:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("ARVADOS_API_HOST", "LADING_SITE"):
        # Set first, so that the end of the test also removes the value of a command.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return SiteLogins(tmp_path / "lading")


def test_whoami(site: Site, logins: SiteLogins) -> None:
    logins.add("lab", SiteLogin(address="lab:1", token="v2/x/y"))
    done = json.loads(site.lading("whoami", "--json").stdout)
    assert (done["login"], done["logins"], done["expires_at"]) == ("lab", ["lab"], None)
    assert done["uuid"] in site.lading("whoami").stdout


def test_a_token_that_the_site_does_not_end_is_named(site: Site, logins: SiteLogins) -> None:
    uuid = "zzzzz-gj3su-000000000000000"
    logins.add("lab", SiteLogin(address="lab:1", token=f"v2/{uuid}/secret", is_own_token=True))
    told = site.lading("logout").stderr
    assert f"'lading token revoke {uuid}'" in told
    assert "secret" not in told
    assert logins.names() == []


def test_a_token_of_others_is_forgotten_and_not_ended(logins: SiteLogins) -> None:
    logins.add("lab", SiteLogin(address="lab:1", token="v2/x/y"))
    done = CliRunner().invoke(cli, ["logout", "--json"])
    assert json.loads(done.stdout) == {"name": "lab", "token_ended": False}
    assert logins.names() == []
    again = CliRunner().invoke(cli, ["logout"])
    assert (again.exit_code, "no login" in again.stderr) == (1, True)


def test_site_chooses_a_login(logins: SiteLogins) -> None:
    logins.add("lab", SiteLogin(address="lab:1", token="v2/x/y"))
    done = CliRunner().invoke(cli, ["--site", "nowhere", "logout"])
    assert done.exit_code == 1
    assert "no login named 'nowhere'; there are: lab" in done.stderr
    assert os.environ["LADING_SITE"] == "nowhere"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["http://lab"], "over https only"),
        (["https://lab:port"], "not a host"),
        (["https://lab", "--name", "own"], "a name has letters"),
    ],
)
def test_what_is_refused_before_a_connection(
    logins: SiteLogins, words: list[str], fault: str
) -> None:
    done = CliRunner().invoke(cli, ["login", *words])
    assert done.exit_code == 1
    assert fault in done.stderr


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise OSError("no username set in the environment")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == f"user {os.getuid()}"
