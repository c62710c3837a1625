"""The configuration of users, and of their login to the page."""

from __future__ import annotations

from dataclasses import dataclass

from lading.config.sections import key, section


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIDConnect:
    """Login to the page at a provider of OpenID Connect, see [The page](web.md)."""

    Enable: bool = key(False, "People log in at the provider.")
    Issuer: str = key("", "Address of the provider, exactly as it writes it.", private=True)
    ClientID: str = key("", "Name of this installation at the provider.", private=True)
    ClientSecret: str = key("", "Its secret; empty for a public client.", private=True)
    EmailClaim: str = key("email", "Claim with the e-mail address.", private=True)
    EmailVerifiedClaim: str = key(
        "email_verified",
        "Claim that must be true for an e-mail address to be taken; empty: each is taken.",
        private=True,
    )
    UsernameClaim: str = key(
        "", "Claim with the name of a new user; empty: `preferred_username`.", private=True
    )
    AcceptAccessToken: bool = key(
        False,
        "Programs may send an access token of the provider in place of a token of this server.",
        private=True,
    )
    AcceptAccessTokenScope: str = key(
        "",
        "Scope that such a token, a JWT, must have; empty: each that the provider knows is taken,"
        " also one made for another program.",
        private=True,
    )
    AuthenticationRequestParameters: dict[str, str] = key(
        {}, "Further parameters of the login, such as `scope` or `prompt`.", private=True
    )
    GroupsClaim: str = key("", "Claim with the list of a person's groups.", private=True)
    Groups: dict[str, str] = key(
        {},
        "Uuid of a role by group; each login adds its user to the roles of the user's groups, and"
        " removes the user from roles that an earlier login added.",
        private=True,
    )
    RequiredGroup: str = key("", "Group without which nobody may log in.", private=True)
    AdminGroup: str = key(
        "", "Group whose members are admins, from one login to the next.", private=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """Log-in of people to the page."""

    TokenLifetime: float = key(
        604800.0, "Longest time for which a login at the provider is good.", unit="seconds"
    )
    OpenIDConnect: OpenIDConnect = section(OpenIDConnect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Users, and their view of each other."""

    NewUsersAreActive: bool = key(
        False,
        "People who log in for the first time may work at once; else an admin activates them.",
        private=True,
    )

    ActivatedUsersAreVisibleToOthers: bool = key(True, "Users see the names of all others.")
    RoleGroupsVisibleToAll: bool = key(True, "Active users see all role groups.")
    AnonymousUserToken: str = key(
        "", "Secret with which anybody reads the records that are shared with the anonymous group."
    )
