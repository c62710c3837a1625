"""The sections on users and their logins."""

from __future__ import annotations

from lading.config.site import export, load


def test_clients_learn_that_there_is_a_provider_and_no_more() -> None:
    provider = {
        "Enable": True,
        "Issuer": "https://login.example.org",
        "ClientSecret": "hush",
        "Groups": {"biologists": "zzzzz-j7d0g-000000000000001"},
    }
    config = load(None, {"Login": {"OpenIDConnect": provider, "TokenLifetime": "1h"}})
    assert config.Login.TokenLifetime == 3600.0
    assert config.Login.OpenIDConnect.Groups == {"biologists": "zzzzz-j7d0g-000000000000001"}
    assert export(config)["Login"] == {"TokenLifetime": "3600s", "OpenIDConnect": {"Enable": True}}


def test_new_users_wait_for_an_admin() -> None:
    assert load().Users.NewUsersAreActive is False
