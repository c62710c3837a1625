"""OpenID Connect as decisions: metadata of a provider, the address of a login there, the claims of
an ID token, and the user that they describe.

The flow is that of a code with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636). The caller
checks signatures: this module gets claims whose signature is right. A person is known by issuer and
subject alone: names and e-mail addresses can be given to somebody else (Core 1.0, section 5.7).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from lading.core.errors import Forbidden, Invalid, Unauthenticated, Unavailable
from lading.core.values import Json

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures of ID tokens: those with a public key. `none` and those with a shared secret are
refused, as a public key could be passed off as the secret.
"""
DISCOVERY: Final = "/.well-known/openid-configuration"
LEEWAY: Final = 60
"""Seconds by which the clocks of server and provider may differ."""
ACCEPTED_FOR: Final = 600.0
"""Seconds for which an access token is good without asking the provider again, as in Arvados."""
# Characters of an ID token that are put into an address; servers take heads of 8 KiB.
_LONGEST_HINT: Final = 4096
# RFC 6750, section 2.1.
_ACCESS_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,8192}=*")
# The secrets of tokens of this server (`ids.encode`), bare or in their long form.
_OWN_SECRET: Final = re.compile(r"[0-9a-z]{50}|v2/.*")
# OpenID Connect Core 1.0, section 2: `sub` has at most 255 characters.
_LONGEST_SUBJECT: Final = 255
_MOST_GROUPS: Final = 1000
_LONGEST_NAME: Final = 255
# Parameters of the flow, which the configuration must not change.
_RESERVED: Final = frozenset(
    {
        "client_id", "client_secret", "code_challenge", "code_challenge_method", "nonce",
        "redirect_uri", "request", "request_uri", "response_mode", "response_type", "state",
    }
)  # fmt: skip
# The characters that user names here do not have.
_OTHER: Final = re.compile(r"[^a-z0-9]+")
# Scheme and host of an address without a user and without a fragment.
_ADDRESS: Final = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:[/?][!\"$-~]*)?"
)
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdProvider:
    """The metadata of a provider; `userinfo` is "" without such an endpoint.

    `posts_secret`: the client's secret goes into the form, not into a header. `names_issuer`: each
    answer names the issuer (RFC 9207).
    """

    issuer: str
    authorization: str
    token: str
    keys: str
    userinfo: str = ""
    logout: str = ""
    """Address at which a login at the provider is ended, "" if it offers none."""
    posts_secret: bool = False
    names_issuer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdClaims:
    """The claims that describe a user: their names, "" for one that is not looked at."""

    email: str = "email"
    email_verified: str = "email_verified"
    username: str = ""
    groups: str = ""

    def lacking(self, claims: Mapping[str, Json]) -> bool:
        """Whether a claim that is looked at is absent."""
        wanted = {self.email, self.username, self.groups, "name"} - {""}
        return not wanted <= claims.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdPerson:
    """The person who has logged in. `email` is "" unless the provider has verified it; `groups` is
    None where the provider says nothing about groups.
    """

    issuer: str
    subject: str
    email: str = ""
    username: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: frozenset[str] | None = field(default=None)

    @property
    def identity(self) -> str:
        """The text that names the person. An issuer has no `#`, so no two persons share one."""
        return f"{self.issuer}#{self.subject}"


def check_settings(
    issuer: str,
    client_id: str,
    parameters: Collection[str],
    *,
    groups_claim: str,
    uses_groups: bool,
) -> None:
    """Check the configuration. Raises Invalid naming the key."""
    key = "configuration: Login.OpenIDConnect"
    if not _is_address(issuer) or "?" in issuer:
        raise Invalid(f"{key}.Issuer: must be an https address, as the provider writes it")
    if not client_id:
        raise Invalid(f"{key}.ClientID: is empty; the provider gives one to each client")
    reserved = sorted(_RESERVED & set(parameters))
    if reserved:
        raise Invalid(f"{key}.AuthenticationRequestParameters: {reserved[0]} is set by the server")
    if uses_groups and not groups_claim:
        raise Invalid(f"{key}.GroupsClaim: is empty; groups need the claim that lists them")


def read_provider(document: Json, issuer: str) -> OpenIdProvider:
    """The provider from its discovery document. Raises Unavailable for a document that cannot be
    used.
    """
    metadata: Mapping[str, Json] = document if isinstance(document, dict) else {}
    # Core 1.0 Discovery, section 4.3: else one provider could speak for another.
    if metadata.get("issuer") != issuer:
        raise Unavailable(
            f"the provider at {issuer} calls itself {str(metadata.get('issuer'))[:200]!r}; "
            "Login.OpenIDConnect.Issuer must be exactly that"
        )
    addresses = {
        name: metadata.get(name)
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
    }
    for name, address in addresses.items():
        if not isinstance(address, str) or not _is_address(address):
            raise Unavailable(f"the provider at {issuer} has no {name} with https")
    methods = metadata.get("token_endpoint_auth_methods_supported")
    return OpenIdProvider(
        issuer=issuer,
        authorization=str(addresses["authorization_endpoint"]),
        token=str(addresses["token_endpoint"]),
        keys=str(addresses["jwks_uri"]),
        userinfo=_optional_address(metadata.get("userinfo_endpoint")),
        logout=_optional_address(metadata.get("end_session_endpoint")),
        posts_secret=isinstance(methods, list)
        and "client_secret_basic" not in methods
        and "client_secret_post" in methods,
        names_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
    )


def _optional_address(value: Json) -> str:
    return value if isinstance(value, str) and _is_address(value) else ""


def challenge(verifier: str) -> str:
    """The challenge of a verifier by S256 (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def login_query(
    *,
    client_id: str,
    redirect_uri: str,
    state: str,
    nonce: str,
    verifier: str,
    parameters: Mapping[str, str],
) -> dict[str, str]:
    """The query with which a person comes to the provider. `parameters` are further ones of the
    configuration.
    """
    return {
        "scope": "openid email profile",
        **parameters,
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge(verifier),
        "code_challenge_method": "S256",
    }


def logout_query(*, client_id: str, id_token: str, redirect_uri: str) -> dict[str, str]:
    """The query with which a person comes to the provider to end the login there, and comes back to
    `redirect_uri`. Source: RP-Initiated Logout 1.0, section 2.
    """
    query = {"client_id": client_id, "post_logout_redirect_uri": redirect_uri}
    if len(id_token) <= _LONGEST_HINT:
        # Without it some providers ask the person first.
        query["id_token_hint"] = id_token
    return query


def may_be_accepted(token: str, *, scope: str) -> bool:
    """Whether the provider is asked about a token that is none of this server. `scope` is that
    which a JWT must have, "" for any token.
    """
    # A token of this server that has ended is not told to the provider.
    if not _ACCESS_TOKEN.fullmatch(token) or _OWN_SECRET.fullmatch(token):
        return False
    if not scope:
        return True
    granted = _read_unchecked(token).get("scope")
    # A text, by RFC 9068, section 2.2.3; some providers give a list.
    scopes = granted.split(" ") if isinstance(granted, str) else granted
    return isinstance(scopes, list) and scope in scopes


def accepted_until(token: str, now: float) -> float:
    """The time until which a token that the provider knows is good without asking again; seconds
    since 1970.
    """
    ends = _number(_read_unchecked(token).get("exp"))
    return now + ACCEPTED_FOR if ends is None else max(0.0, min(now + ACCEPTED_FOR, ends))


def _read_unchecked(token: str) -> Mapping[str, Json]:
    """The claims of a JWT without a look at its signature; none for another token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims: Json = msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def check_subject(claims: Mapping[str, Json]) -> str:
    """Return the claim `sub`, the provider's id of the user. Raises Unauthenticated if it is
    invalid.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        raise _refused("sub", f"it must have 1 to {_LONGEST_SUBJECT} characters")
    # PostgreSQL stores no NUL character.
    if "\0" in subject:
        raise _refused("sub", "it has a NUL character")
    return subject


def check_answer(provider: OpenIdProvider, *, named: str) -> None:
    """Check the issuer that an answer names, "" for none (RFC 9207). Raises Unauthenticated."""
    if (named or provider.names_issuer) and named != provider.issuer:
        raise Unauthenticated("the answer is of another provider; log in again")


def check_claims(
    claims: Mapping[str, Json], *, issuer: str, client_id: str, nonce: str, now: float
) -> str:
    """Check the claims of an ID token (Core 1.0, section 3.1.3.7); its subject. `now` is seconds
    since 1970. Raises Unauthenticated naming the claim.
    """
    if claims.get("iss") != issuer:
        raise _refused("iss", "another provider made it")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences:
        raise _refused("aud", "it was made for another client")
    party = claims.get("azp")
    if party != client_id and (party is not None or len(audiences) > 1):
        raise _refused("azp", "it was made for another client")
    if not nonce or claims.get("nonce") != nonce:
        raise _refused("nonce", "it was made for another login")
    _check_times(claims, now)
    return check_subject(claims)


def _check_times(claims: Mapping[str, Json], now: float) -> None:
    ends, made, starts = (_number(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if ends is None or ends + LEEWAY <= now:
        raise _refused("exp", "it has expired; check the clocks, and log in again")
    if made is None or made - LEEWAY > now:
        raise _refused("iat", "it was made in the future; check the clocks")
    if starts is not None and starts - LEEWAY > now:
        raise _refused("nbf", "it is not valid yet; check the clocks")


def merge_claims(
    signed: Mapping[str, Json], described: Mapping[str, Json], names: OpenIdClaims
) -> dict[str, Json]:
    """The claims of an ID token, and those that userinfo has besides. The e-mail address and
    whether it is verified are of one of them: else the word about one address would count for
    another one.
    """
    about = {names.email, names.email_verified} - {""}
    source = signed if about <= signed.keys() or names.email not in described else described
    others = {name: value for name, value in {**described, **signed}.items() if name not in about}
    return {**others, **{name: source[name] for name in about & source.keys()}}


def read_person(
    claims: Mapping[str, Json], *, issuer: str, subject: str, names: OpenIdClaims
) -> OpenIdPerson:
    """The person that checked claims describe."""
    email = _text(claims, names.email)
    verified = claims.get(names.email_verified) if names.email_verified else True
    # Some providers write the text "true" (Core 1.0 says a boolean). The number 1 is equal to True.
    if verified is not True and verified != "true":
        email = ""
    first, last = _text(claims, "given_name"), _text(claims, "family_name")
    if not first and not last:
        first, _, last = _text(claims, "name").partition(" ")
    return OpenIdPerson(
        issuer=issuer,
        subject=subject,
        email=email,
        username=_text(claims, names.username) or _text(claims, "preferred_username"),
        first_name=first,
        last_name=last,
        groups=_read_groups(claims, names.groups),
    )


def _read_groups(claims: Mapping[str, Json], name: str) -> frozenset[str] | None:
    if not name:
        return None
    found = claims.get(name)
    # Nothing, where a list was to be: the person is in no group, which takes away what an earlier
    # login gave.
    listed: Sequence[Json] = found if isinstance(found, list) else [found]
    return frozenset(group for group in listed[:_MOST_GROUPS] if isinstance(group, str))


def check_group(person: OpenIdPerson, required: str) -> None:
    """Check that a person is in the group that all must be in; "" is none. Raises Forbidden."""
    if required and required not in (person.groups or ()):
        raise Forbidden(
            "Forbidden: you are not in the group whose members may log in here; ask an admin"
        )


def wanted_roles(person: OpenIdPerson, roles: Mapping[str, str]) -> frozenset[str]:
    """The roles that a person's groups give. `roles` is the uuid of a role by group."""
    return frozenset(roles[group] for group in roles.keys() & (person.groups or frozenset()))


def free_username(person: OpenIdPerson, taken: Collection[str]) -> str:
    """A name for a new user: letters and digits, not one of `taken`."""
    source = person.username or person.email.partition("@")[0] or person.first_name or "user"
    stem = _OTHER.sub("", source.lower())[:60]
    if not stem[:1].isalpha():
        stem = f"user{stem}"
    number = 1
    while (name := stem if number == 1 else f"{stem}{number}") in taken:
        number += 1
    return name


def _refused(claim: str, why: str) -> Unauthenticated:
    return Unauthenticated(f"the ID token of the provider was refused: {claim}: {why}")


def _text(claims: Mapping[str, Json], name: str) -> str:
    value = claims.get(name) if name else None
    return value.replace("\0", "").strip()[:_LONGEST_NAME] if isinstance(value, str) else ""


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        # An integer of JSON has any number of digits.
        return None


def _is_address(url: str) -> bool:
    """Whether a text is an https address, or an http one of this machine."""
    match = _ADDRESS.fullmatch(url)
    return match is not None and (match[1] == "https" or bool(_LOOPBACK.fullmatch(match[2])))
