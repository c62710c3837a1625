"""Logins at sites elsewhere: the file, the keyring, and which one counts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lading.client.servers.own_site import find_or_start
from lading.client.servers.site_logins import (
    SiteLogin,
    SiteLogins,
    check_name,
    configuration_directory,
)
from lading.core.errors import Invalid, NotFound

_LAB = SiteLogin(address="lab.example.org:443", user="ann", token="v2/a/secret", is_own_token=True)
_HOME = SiteLogin(address="home:9440", user="ann", token="v2/b/other", is_pinned=True)


class FakeKeyring:
    """A keyring in memory; `is_locked`: it takes and gives nothing."""

    def __init__(self) -> None:
        self.secrets: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, name: str) -> str | None:
        return None if self.is_locked else self.secrets.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        if self.is_locked:
            raise RuntimeError("locked")
        self.secrets[service, name] = secret

    def delete_password(self, service: str, name: str) -> None:
        del self.secrets[service, name]


@pytest.fixture
def logins(tmp_path: Path) -> SiteLogins:
    return SiteLogins(tmp_path / "lading")


def test_the_last_login_counts(logins: SiteLogins) -> None:
    assert logins.choose({}) == ""
    logins.add("lab", _LAB)
    logins.add("home", _HOME, certificate="PEM")
    assert (logins.choose({}), logins.names()) == ("home", ["home", "lab"])
    assert logins.choose({"LADING_SITE": "lab"}) == "lab"
    assert logins.choose({"LADING_SITE": "own"}) == ""
    assert logins.choose({"ARVADOS_API_HOST": "elsewhere"}) == ""
    assert logins.choose({"ARVADOS_API_HOST": "elsewhere", "LADING_SITE": "lab"}) == "lab"
    with pytest.raises(NotFound, match="no login named 'x'; there are: home, lab"):
        logins.choose({"LADING_SITE": "x"})


def test_a_login_gives_the_server(logins: SiteLogins) -> None:
    logins.add("lab", _LAB)
    logins.add("home", _HOME, certificate="PEM")
    lab, home = logins.server("lab"), logins.server("home")
    assert (lab.address, lab.token, lab.authorities) == (_LAB.address, _LAB.token, None)
    assert home.authorities == logins.certificate("home")
    assert (home.is_pinned, home.authorities.read_text(), home.login) == (True, "PEM", "home")


def test_nobody_else_reads_the_files(logins: SiteLogins, tmp_path: Path) -> None:
    logins.add("home", _HOME, certificate="PEM")
    folder = tmp_path / "lading"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert sorted(path.name for path in folder.iterdir()) == ["home.pem", "sites.json"]


def test_a_logout_forgets_all(logins: SiteLogins, tmp_path: Path) -> None:
    logins.add("lab", _LAB)
    logins.add("home", _HOME, certificate="PEM")
    logins.remove("home")
    assert logins.choose({}) == "lab"
    logins.remove("lab")
    with pytest.raises(NotFound, match="there are: none"):
        logins.remove("lab")
    text = (tmp_path / "lading/sites.json").read_text()
    assert "secret" not in text
    assert not logins.certificate("home").exists()


def test_the_keyring_has_the_token(tmp_path: Path) -> None:
    keyring = FakeKeyring()
    logins = SiteLogins(tmp_path, lambda: keyring)
    assert logins.add("lab", _LAB)
    assert "secret" not in (tmp_path / "sites.json").read_text()
    assert logins.server("lab").token == _LAB.token
    keyring.is_locked = True
    with pytest.raises(Invalid, match="the keyring has no token of the login lab"):
        logins.server("lab")
    keyring.is_locked = False
    logins.remove("lab")
    assert keyring.secrets == {}


def test_a_keyring_that_takes_nothing(tmp_path: Path) -> None:
    keyring = FakeKeyring()
    keyring.is_locked = True
    logins = SiteLogins(tmp_path, lambda: keyring)
    assert not logins.add("lab", _LAB)
    assert logins.server("lab").token == _LAB.token


def test_a_damaged_file_is_named(logins: SiteLogins, tmp_path: Path) -> None:
    (tmp_path / "lading").mkdir()
    (tmp_path / "lading/sites.json").write_text("{")
    with pytest.raises(Invalid, match=r"sites\.json: cannot be read"):
        logins.choose({})


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="cannot be written"):
        SiteLogins(tmp_path / "file").add("lab", _LAB)


@pytest.mark.parametrize("name", ["", "own", "../up", "a b", "-x", "x" * 65])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="a name has letters"):
        check_name(name)


def test_the_directory_is_that_of_the_system(tmp_path: Path) -> None:
    assert configuration_directory({"HOME": "/h"}) == Path("/h/.config/lading")
    assert configuration_directory({"XDG_CONFIG_HOME": "/c"}) == Path("/c/lading")


def test_commands_use_the_login(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "LADING_START": "never"}
    SiteLogins(configuration_directory(environ)).add("lab", _LAB)
    server = find_or_start(environ, tmp_path / "data", say=lambda _: None)
    assert (server.address, server.token) == (_LAB.address, _LAB.token)
    with pytest.raises(Invalid, match="no server"):
        find_or_start({**environ, "LADING_SITE": "own"}, tmp_path / "data", say=lambda _: None)
