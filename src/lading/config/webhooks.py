"""The configuration of webhooks and of e-mail.

`config` has the other sections.
"""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Events that are sent to receivers outside."""

    MaxConcurrent: int = key(
        32,
        "Deliveries at a time by one server, one for each webhook; a user has at most a quarter of"
        " them, webhooks that fail at most half. 0: this server sends none.",
        private=True,
    )
    MaxPerOwner: int = key(20, "Webhooks of one user or project.", private=True)
    Timeout: float = key(
        15.0,
        "Longest time of one delivery, from the name look-up to the head of the answer.",
        private=True,
        unit="seconds",
    )
    MaxAttempts: int = key(
        10, "Attempts after which an event that failed becomes a dead letter.", private=True
    )
    PauseAfter: float = key(
        86400.0,
        "Time without a success after which a webhook that fails is paused.",
        private=True,
        unit="seconds",
    )
    AllowedNetworks: list[str] = key(
        [],
        "Private networks and addresses of this machine that URLs of webhooks may lead to, such as"
        " 10.1.2.0/24; others of them are refused.",
        private=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """The server of outgoing e-mail, by SMTP."""

    Host: str = key("", "Its name; empty: no e-mail is sent.", private=True)
    Port: int = key(0, "Its port; 0: 587, with `TLS: always` 465.", private=True)
    TLS: str = key(
        "starttls",
        "`starttls`: the connection is encrypted before anything is said; `always`: from its begin;"
        " `never`: not at all, for a server on this machine.",
        private=True,
    )
    User: str = key("", "Name for the login there; empty: none.", private=True)
    PasswordFile: str = key("", "File with the password of this user.", private=True)
    From: str = key("", "Address that e-mail is from, such as lading@example.org.", private=True)
    Timeout: float = key(30.0, "Longest time of one e-mail.", private=True, unit="seconds")
