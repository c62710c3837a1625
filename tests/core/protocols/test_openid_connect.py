"""OpenID Connect: which documents, tokens and persons are accepted."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from lading.core.errors import Forbidden, Invalid, Unauthenticated, Unavailable
from lading.core.protocols import openid_connect as rules
from lading.core.protocols.openid_connect import OpenIdClaims, OpenIdPerson
from lading.core.values import Json

ISSUER = "https://id.example.org/realm"
DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": "lading", "sub": "1", "nonce": "n", "exp": 2000, "iat": 1000,
}  # fmt: skip


def check(now: float = 1000, **changes: Any) -> str:
    claims = {name: one for name, one in {**CLAIMS, **changes}.items() if one != "absent"}
    return rules.check_claims(claims, issuer=ISSUER, client_id="lading", nonce="n", now=now)


def person(names: OpenIdClaims | None = None, **claims: Any) -> OpenIdPerson:
    return rules.read_person(claims, issuer=ISSUER, subject="1", names=names or OpenIdClaims())


def settings(issuer: str = ISSUER, *, client: str = "lading", **more: Any) -> None:
    rules.check_settings(
        issuer, client, more.get("parameters", ()), groups_claim="", uses_groups="groups" in more
    )


@pytest.mark.parametrize(
    "issuer", [ISSUER, "http://127.0.0.1:9400", "http://localhost:1", "http://[::1]:1/a"]
)
def test_addresses_of_issuers(issuer: str) -> None:
    settings(issuer, parameters={"prompt": "login"})


@pytest.mark.parametrize(
    "issuer",
    ["", "x", "http://id.example.org", "https://u@id.example.org", f"{ISSUER}?a", f"{ISSUER}#a"],
)
def test_what_is_no_issuer(issuer: str) -> None:
    with pytest.raises(Invalid, match="Issuer"):
        settings(issuer)


def test_settings_that_are_refused() -> None:
    with pytest.raises(Invalid, match="ClientID"):
        settings(client="")
    with pytest.raises(Invalid, match="redirect_uri is set by the server"):
        settings(parameters={"redirect_uri": "x"})
    with pytest.raises(Invalid, match="GroupsClaim"):
        settings(groups=True)


def test_a_provider() -> None:
    found = rules.read_provider(DOCUMENT, ISSUER)
    assert (found.token, found.userinfo, found.posts_secret) == (f"{ISSUER}/token", "", False)
    more: dict[str, Any] = {
        "userinfo_endpoint": f"{ISSUER}/me",
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "authorization_response_iss_parameter_supported": True,
    }
    found = rules.read_provider({**DOCUMENT, **more}, ISSUER)
    assert (found.userinfo, found.posts_secret, found.names_issuer) == (f"{ISSUER}/me", True, True)


@pytest.mark.parametrize(
    "document",
    [None, {**DOCUMENT, "issuer": "https://other"}, {**DOCUMENT, "jwks_uri": "http://x/"},
     {**DOCUMENT, "token_endpoint": 1}],
)  # fmt: skip
def test_a_document_that_cannot_be_used(document: Any) -> None:
    with pytest.raises(Unavailable):
        rules.read_provider(document, ISSUER)


def test_the_query_of_a_login() -> None:
    query = rules.login_query(
        client_id="c", redirect_uri="r", state="s", nonce="n",
        verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", parameters={"scope": "openid g"},
    )  # fmt: skip
    # The example of RFC 7636, appendix B.
    assert query["code_challenge"] == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert (query["scope"], query["response_type"], query["state"]) == ("openid g", "code", "s")


def test_the_issuer_of_an_answer() -> None:
    provider = rules.read_provider(DOCUMENT, ISSUER)
    rules.check_answer(provider, named="")
    rules.check_answer(provider, named=ISSUER)
    with pytest.raises(Unauthenticated):
        rules.check_answer(provider, named="https://other")
    named = {**DOCUMENT, "authorization_response_iss_parameter_supported": True}
    with pytest.raises(Unauthenticated):
        rules.check_answer(rules.read_provider(named, ISSUER), named="")


def test_claims_that_are_right() -> None:
    assert check() == "1"
    assert check(aud=["lading", "other"], azp="lading", nbf=900) == "1"
    assert check(now=2059) == "1"
    assert check(now=940) == "1"


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("iss", {"iss": "https://other"}),
        ("iss", {"iss": "absent"}),
        ("aud", {"aud": "other"}),
        ("aud", {"aud": ["other"]}),
        ("aud", {"aud": "absent"}),
        ("azp", {"azp": "other"}),
        ("azp", {"aud": ["lading", "other"]}),
        ("nonce", {"nonce": "other"}),
        ("nonce", {"nonce": "absent"}),
        ("exp", {"exp": 940}),
        ("exp", {"exp": "absent"}),
        ("exp", {"exp": 10**400}),
        ("exp", {"exp": "2000"}),
        ("exp", {"exp": True}),
        ("iat", {"iat": 1061}),
        ("iat", {"iat": "absent"}),
        ("nbf", {"nbf": 1061}),
        ("sub", {"sub": ""}),
        ("sub", {"sub": 1}),
        ("sub", {"sub": "x" * 256}),
        ("sub", {"sub": "a\0"}),
    ],
)
def test_claims_that_are_refused(claim: str, changes: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match=f"refused: {claim}:"):
        check(**changes)


def test_a_login_without_a_nonce_matches_no_token() -> None:
    with pytest.raises(Unauthenticated, match="nonce"):
        rules.check_claims(
            {**CLAIMS, "nonce": ""}, issuer=ISSUER, client_id="lading", nonce="", now=1
        )


def test_an_email_counts_when_it_is_verified() -> None:
    assert person(email="a@b", email_verified=True).email == "a@b"
    assert person(email="a@b", email_verified="true").email == "a@b"
    for verified in (False, None, "false", 1.5):
        assert person(email="a@b", email_verified=verified).email == ""
    assert person(OpenIdClaims(email_verified=""), email="a@b").email == "a@b"


@pytest.mark.parametrize(
    ("signed", "described", "merged"),
    [
        ({"a": 1, "name": "x"}, {"a": 2, "b": 3}, {"a": 1, "b": 3, "name": "x"}),
        ({"email": "a"}, {"email": "b", "email_verified": True},
         {"email": "b", "email_verified": True}),
        ({"email": "a"}, {"email_verified": True}, {"email": "a"}),
        ({"email_verified": True}, {"email": "b"}, {"email": "b"}),
        ({"email": "a", "email_verified": False}, {"email": "b", "email_verified": True},
         {"email": "a", "email_verified": False}),
    ],
)  # fmt: skip
def test_an_email_and_its_verification_have_one_source(
    signed: dict[str, Json], described: dict[str, Json], merged: dict[str, Json]
) -> None:
    assert rules.merge_claims(signed, described, OpenIdClaims()) == merged


def test_an_email_without_a_claim_of_verification() -> None:
    names = OpenIdClaims(email_verified="")
    assert rules.merge_claims({"email": "a"}, {"email": "b"}, names) == {"email": "a"}
    assert rules.merge_claims({}, {"email": "b"}, names) == {"email": "b"}


def test_names_of_a_person() -> None:
    found = person(name="Ada King Lovelace", preferred_username="ada\0")
    assert (found.first_name, found.last_name) == ("Ada", "King Lovelace")
    assert found.username == "ada"
    found = person(OpenIdClaims(username="nick"), given_name="A", family_name="B", nick="n", name=3)
    assert (found.first_name, found.last_name, found.username) == ("A", "B", "n")
    assert found.identity == f"{ISSUER}#1"


def test_groups_of_a_person() -> None:
    names = OpenIdClaims(groups="groups")
    assert person().groups is None
    assert person(names).groups == frozenset()
    assert person(names, groups="one").groups == frozenset({"one"})
    found = person(names, groups=["one", 2, "two"])
    assert found.groups == frozenset({"one", "two"})
    assert rules.wanted_roles(found, {"two": "r2", "three": "r3"}) == {"r2"}
    assert rules.wanted_roles(person(), {"two": "r2"}) == frozenset()


def test_a_group_that_all_must_be_in() -> None:
    names = OpenIdClaims(groups="groups")
    rules.check_group(person(), "")
    rules.check_group(person(names, groups=["in"]), "in")
    for one in (person(), person(names, groups=["out"])):
        with pytest.raises(Forbidden):
            rules.check_group(one, "in")


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ada.L"}, "adal"),
        ({"email": "eve@x", "email_verified": True}, "eve"),
        ({"name": "Zoë Q"}, "zo"),
        ({"preferred_username": "42"}, "user42"),
        ({}, "user"),
    ],
)
def test_names_of_new_users(claims: dict[str, Any], name: str) -> None:
    assert rules.free_username(person(**claims), ()) == name
    assert rules.free_username(person(**claims), {name, f"{name}2"}) == f"{name}3"


def test_claims_that_are_lacking() -> None:
    names = OpenIdClaims(groups="g")
    assert names.lacking({"email": "", "name": ""})
    assert not names.lacking({"email": "", "name": "", "g": []})


def _unsigned(payload: bytes) -> str:
    return f"head.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.signature"


def test_the_query_of_a_logout() -> None:
    there = {"client_id": "lading", "redirect_uri": "https://here/ui/login"}
    plain = {"client_id": "lading", "post_logout_redirect_uri": "https://here/ui/login"}
    assert rules.logout_query(id_token="a.b.c", **there) == {**plain, "id_token_hint": "a.b.c"}
    # An address has room for so much only.
    assert rules.logout_query(id_token="x" * 5000, **there) == plain


@pytest.mark.parametrize("given", [None, 7, "http://elsewhere.example/end", "javascript:alert(1)"])
def test_a_logout_elsewhere_is_not_offered(given: Json) -> None:
    document = {**DOCUMENT, "end_session_endpoint": given}
    assert rules.read_provider(document, ISSUER).logout == ""
    right = {**DOCUMENT, "end_session_endpoint": f"{ISSUER}/end"}
    assert rules.read_provider(right, ISSUER).logout == f"{ISSUER}/end"


@pytest.mark.parametrize(
    ("token", "scope", "is_asked"),
    [
        ("an-opaque-token-1", "", True),
        ("an-opaque-token-1", "lading", False),
        ("too-short", "", False),
        ("with a space in it", "", False),
        ("0123456789" * 5, "", False),
        ("v2/zzzzz-gj3su-012345678901234/x", "", False),
        (_unsigned(b'{"scope": "openid lading"}'), "lading", True),
        (_unsigned(b'{"scope": ["lading"]}'), "lading", True),
        (_unsigned(b'{"scope": "openid lading2"}'), "lading", False),
        (_unsigned(b'{"scope": {"lading": 1}}'), "lading", False),
        (_unsigned(b"[1, 2, 3, 4, 5]"), "lading", False),
        (_unsigned(b"no JSON, no JSON"), "lading", False),
        ("head.x.signature-and-more", "lading", False),
    ],
)
def test_which_tokens_the_provider_is_asked_about(token: str, scope: str, is_asked: bool) -> None:
    assert rules.may_be_accepted(token, scope=scope) is is_asked


def test_how_long_an_accepted_token_is_good() -> None:
    assert rules.accepted_until("an-opaque-token-1", 1000.0) == 1600.0
    assert rules.accepted_until(_unsigned(b'{"exp": 1060}'), 1000.0) == 1060.0
    assert rules.accepted_until(_unsigned(b'{"exp": 9000}'), 1000.0) == 1600.0
    assert rules.accepted_until(_unsigned(b'{"exp": -1e300}'), 1000.0) == 0.0
    assert rules.accepted_until(_unsigned(b'{"exp": "soon"}'), 1000.0) == 1600.0
