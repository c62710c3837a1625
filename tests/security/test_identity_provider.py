"""Logins at a provider of OpenID Connect: forged tokens, keys, documents, claims and answers, in
process. Whoever forges stands between the server and the provider, or is a user of the provider.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from lading.api.logins.provider_client import OpenIdClient
from lading.config.logins import OpenIDConnect
from lading.core.errors import LadingError
from lading.core.protocols.openid_connect import OpenIdPerson
from lading.testing.asgi import AsgiTransport
from lading.testing.identity_provider import (
    CLIENT,
    ISSUER,
    SECRET,
    FakeIdentityProvider,
    Key,
    make_key,
)
from tests.api.logins.logging_in import login_world, token_of
from tests.web.browsing import page_site
from tests.web.test_single_sign_on import SignOn

pytestmark = pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
NOW = 1_700_000_000
PAGE = "https://lading.example.org/ui/openid_connect/done"
RIGHT: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "jane", "nonce": "n", "iat": NOW, "exp": NOW + 600,
}  # fmt: skip
HEAD: dict[str, Any] = {"alg": "ES256", "kid": "first"}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _json(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def _signed(head: Any, claims: Any, key: Key | OKPKey, algorithm: str = "ES256") -> str:
    """A token with any bytes for its head and its claims, and a right signature."""
    text = f"{_text(_json(head))}.{_text(_json(claims))}"
    model: Any = jws.JWSRegistry.algorithms[algorithm]
    return f"{text}.{_text(model.sign(text.encode(), key))}"


def _provider() -> FakeIdentityProvider:
    return FakeIdentityProvider(clock=lambda: NOW)


def _client(provider: FakeIdentityProvider, **settings: Any) -> OpenIdClient:
    about = OpenIDConnect(
        Enable=True, Issuer=ISSUER, ClientID=CLIENT, ClientSecret=SECRET, **settings
    )
    return OpenIdClient(about, clock=lambda: NOW, connect=lambda _: AsgiTransport(provider))


async def _log_in(provider: FakeIdentityProvider, **settings: Any) -> OpenIdPerson | int:
    """The person of a login, or the status of the refusal. Faults of the program are raised."""
    client = _client(provider, **settings)
    try:
        address = await client.login_address(redirect_uri=PAGE, state="s", nonce="n", verifier="v")
        code = provider.log_in(address)["code"]
        person, _ = await client.find_person(
            code, redirect_uri=PAGE, nonce="n", verifier="v", issuer=""
        )
    except LadingError as error:
        return error.status
    return person


REFUSED_CLAIMS: dict[str, list[Any]] = {
    "iss": [
        None, "", f"{ISSUER}/", ISSUER.upper(), ISSUER.replace("https", "http"), f"{ISSUER}#jane",
        [ISSUER], {"iss": ISSUER}, 1, True, f"{ISSUER}.evil.example", f"{ISSUER} ",
        f"https://evil.example/{ISSUER}", "https://id.example.org:443", "https://id.ехample.org",
    ],
    "aud": [
        None, "", "Lading", "lading ", "lading,other", "lading other", [], ["other"], [["lading"]],
        {"lading": True}, ["lading", "other"], 1, True, [None], "ladi", "*",
    ],
    "azp": ["other", "", [CLIENT], 1, False, "LADING"],
    "nonce": [None, "", "N", ["n"], "n ", 1, True, {"n": "n"}],
    "exp": [
        None, 0, -1, NOW - 60, NOW - 10_000, str(NOW + 600), True, [NOW + 600], {}, -(10**30),
        10**400, -(10**400), -1e308,
    ],
    "iat": [None, NOW + 61, "now", True, 10**30, 1e308, [NOW], 10**400],
    "nbf": [NOW + 61, 10**30, 1e308],
    "sub": [None, "", "x" * 256, 1, True, ["jane"], {"jane": 1}, "ja\0ne", "\0"],
}  # fmt: skip


@pytest.mark.attack("a signed ID token of another login, client, issuer or time is used")
async def test_claims_of_another_login() -> None:
    for name, values in REFUSED_CLAIMS.items():
        for value in values:
            provider = _provider()
            claims = {key: one for key, one in (RIGHT | {name: value}).items() if one is not None}
            provider.token = _signed(HEAD, claims, provider.keys[0])
            assert await _log_in(provider) == 401, (name, value)
    for changes in (
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"aud": [CLIENT, CLIENT]},
        {"aud": ["other"], "azp": CLIENT},
        {"exp": NOW - 59, "iat": NOW + 61},
    ):
        provider = _provider()
        provider.token = _signed(HEAD, RIGHT | changes, provider.keys[0])
        assert await _log_in(provider) == 401, changes
    for right in ({}, {"aud": [CLIENT]}, {"aud": [CLIENT, "x"], "azp": CLIENT}, {"exp": NOW - 59}):
        provider = _provider()
        provider.token = _signed(HEAD, RIGHT | right, provider.keys[0])
        assert isinstance(await _log_in(provider), OpenIdPerson), right


ALGORITHMS: list[Any] = [
    None, 1, [], ["ES256"], {}, "", "none", "None", "nOnE", "HS256", "HS512", "es256", "RS256",
    "PS512", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519", "dir", "RSA-OAEP", "ES256 ",
]  # fmt: skip
NAMES: list[Any] = [
    1, ["first"], {}, None, "", "First", "first ", "../first", "unknown", "\ud800", True,
]  # fmt: skip
REFUSED_HEADS: list[Any] = [
    b"[]", b"null", b"1", b'"x"', b"", b"{", {}, {"kid": "first"}, b"\xff\xfe", b"[" * 2_000,
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    *({**HEAD, "alg": one} for one in ALGORITHMS),
    *({**HEAD, "kid": one} for one in NAMES),
    {**HEAD, "crit": ["b64"], "b64": False}, {**HEAD, "b64": False}, {**HEAD, "crit": ["exp"]},
    {**HEAD, "crit": "b64"}, {**HEAD, "zip": "DEF"}, {**HEAD, "pad": "x" * 600_000},
]  # fmt: skip
REFUSED_PAYLOADS: list[bytes] = [
    b"", b"[]", b"null", b"1", b'"x"', b"[", b"[" * 100_000, b'{"a":' * 100_000,
    _json(RIGHT).replace(b'"jane"', b'"\\ud800"'), json.dumps(RIGHT).encode("utf-16"),
    _json(RIGHT).replace(b"1700000600", b"NaN"), _json(RIGHT).replace(b"1700000600", b"Infinity"),
    _json(RIGHT).replace(b"1700000600", b"1e999"), b"\xef\xbb\xbf" + _json(RIGHT),
    _json(RIGHT) + _json(RIGHT), b"a" * 700_000, b"[" * 2_000,
    b"[" * 2_000 + b"]" * 2_000, b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
]  # fmt: skip


@pytest.mark.attack("an ID token names no algorithm, another one, another key, or is no JSON")
async def test_tokens_of_any_form() -> None:
    for head in REFUSED_HEADS:
        provider = _provider()
        provider.token = _signed(head, RIGHT, provider.keys[0])
        assert await _log_in(provider) == 401, str(head)[:80]
    for payload in REFUSED_PAYLOADS:
        provider = _provider()
        provider.token = _signed(HEAD, payload, provider.keys[0])
        assert await _log_in(provider) == 401, payload[:80]


@pytest.mark.attack("a token brings its own key, or a public key is used as a shared secret")
async def test_keys_that_a_token_brings() -> None:
    evil = make_key("first")
    public: dict[str, Any] = dict(evil.as_dict(private=False))
    rsa = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
    heads = [
        HEAD, {**HEAD, "jwk": public}, {**HEAD, "jku": "https://evil.example/keys"},
        {**HEAD, "x5u": "https://evil.example/pem"}, {**HEAD, "x5c": [_text(b"der")]},
        {**HEAD, "kid": "https://evil.example/keys"}, {"alg": "ES256", "jwk": public},
        {"alg": "ES256"}, {"alg": "ES256", "kid": "evil"},
    ]  # fmt: skip
    for head in heads:
        provider = _provider()
        provider.token = _signed(head, RIGHT, evil)
        assert await _log_in(provider) == 401, head
    for key in (make_key("first"), rsa):
        secrets = (
            key.as_pem(private=False), key.as_der(private=False), _json(key.as_dict(private=False)),
            key.as_pem(private=False).strip(), b"", b"first",
        )  # fmt: skip
        for secret in secrets:
            for algorithm in ("HS256", "HS384", "HS512"):
                provider = _provider()
                provider.keys = [key]
                text = f"{_text(_json({**HEAD, 'alg': algorithm}))}.{_text(_json(RIGHT))}"
                sealed = hmac.digest(secret, text.encode(), algorithm.replace("HS", "sha"))
                provider.token = f"{text}.{_text(sealed)}"
                assert await _log_in(provider) == 401, (secret, algorithm)
    provider = _provider()
    right = _signed(HEAD, RIGHT, provider.keys[0])
    named, claims, proof = right.split(".")
    zeros = _text(b"\0" * 64)
    for token in (
        f"{named}.{claims}.", f"{named}.{claims}", f"{named}.{claims}.{zeros}",
        f".{claims}.{proof}", f"{named}..{proof}", f"{right}.", f"{right}.{proof}",
        f"{named}.{claims}.{proof[:-8]}",
        f"{named}.{claims}.{_text(base64.urlsafe_b64decode(proof + '==')[::-1])}",
        _text(b'{"alg":"none"}') + f".{claims}.", _text(b'{"alg":"none"}') + f".{claims}.{proof}",
        json.dumps({"payload": claims, "protected": named, "signature": proof}),
    ):  # fmt: skip
        provider.token = token
        assert await _log_in(provider) == 401, token


def _shown(key: Any, **changes: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), **changes}


@pytest.mark.attack("the key set of the provider is huge, broken, or has keys that are not to sign")
async def test_key_sets() -> None:
    right, other = make_key("first"), make_key("other")
    weak = OKPKey.generate_key("X25519", {"kid": "first"})
    shared = OctKey.import_key(b"x" * 32, {"kid": "first"})
    refused: list[Any] = [
        None, 1, "x", [], {}, {"keys": None}, {"keys": {}}, {"keys": "first"}, {"keys": []},
        {"keys": [None, 1, "x", [], {}, [[]]]}, {"keys": [{"kty": None}, {"kty": ["EC"]}]},
        {"keys": [_shown(right, use="enc")]}, {"keys": [_shown(right, key_ops=["encrypt"])]},
        {"keys": [_shown(right, alg="HS256")]}, {"keys": [_shown(right, crv="P-521")]},
        {"keys": [_shown(right, crv="none")]}, {"keys": [_shown(right, x="AA", y="AA")]},
        {"keys": [_shown(right, x=_text(b"\0" * 32), y=_text(b"\0" * 32))]},
        {"keys": [_shown(right, kty="RSA")]}, {"keys": [_shown(right, kid="x"), _shown(other)]},
        {"keys": [_shown(weak, alg="EdDSA")]}, {"keys": [shared.as_dict()]},
        {"keys": [_shown(other)] * 100 + [_shown(right)]}, {"keys": [{"kty": "EC"}] * 10_000},
        {"keys": [{"kty": "RSA", "kid": "first", "n": "AQAB", "e": "AQ"}]},
        {"keys": [{"kty": "RSA", "kid": "first", "n": "", "e": ""}]},
        {"keys": [], "pad": "x" * (1 << 20)}, msgspec.Raw(b"[" * 100_000), msgspec.Raw(b"no JSON"),
        msgspec.Raw(b""), msgspec.Raw(b"\xff"),
    ]  # fmt: skip
    for document in refused:
        provider = _provider()
        provider.keys = [right]
        provider.answers["/keys"] = (200, document)
        assert await _log_in(provider) in (401, 503), str(document)[:120]
    for status in (204, 301, 302, 307, 401, 404, 500, 503):
        provider = _provider()
        provider.answers["/keys"] = (status, {"keys": [_shown(provider.keys[0])]})
        assert await _log_in(provider) == 503, status
    # Junk beside a right key does no harm.
    provider = _provider()
    provider.answers["/keys"] = (200, {"keys": [None, {}, *[_shown(other)] * 90, _shown(right)]})
    provider.keys = [right]
    assert isinstance(await _log_in(provider), OpenIdPerson)


ADDRESSES: list[Any] = [
    None, "", 1, [], ["https://id.example.org/x"], {}, "/authorize", "//id.example.org/x",
    "http://id.example.org/x", "ftp://id.example.org/x", "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/html,x", "https://", "https:///x", "https://a@id.example.org/", "https://a:b@c/x",
    "https://id.example.org#x", "https://id.example.org/x#y", "https://id.example.org/ x",
    "https://id.example.org/\r\nX: y", "https://id.example.org\\@evil.example/", "https://[::1",
    "https://id.example.org:x/", "https://id.example.org:999999/", " https://id.example.org/x",
    "https://id.example.org/\0", "https://id.exämple.org/", "HTTP://localhost/x",
    "http://localhost.evil.example/", "http://127.0.0.1.evil.example/", "http://127.1/x",
    "http://0.0.0.0/x", "http://169.254.169.254/latest", "http://[::ffff:127.0.0.1]/x",
]  # fmt: skip


@pytest.mark.attack("the provider's document is of another issuer, or leads elsewhere")
async def test_discovery_documents() -> None:
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        for address in ADDRESSES:
            provider = _provider()
            provider.metadata = {name: address}
            assert await _log_in(provider) == 503, (name, address)
    for issuer in REFUSED_CLAIMS["iss"]:
        provider = _provider()
        provider.metadata = {"issuer": issuer}
        assert await _log_in(provider) == 503, issuer
    for name in ("userinfo_endpoint", "end_session_endpoint"):
        for address in ADDRESSES:
            provider = _provider()
            provider.metadata = {name: address}
            client = _client(provider)
            assert await client.logout_address("t", redirect_uri=PAGE) == ""
            assert isinstance(await _log_in(provider), OpenIdPerson), (name, address)
            assert not (name == "userinfo_endpoint" and "/userinfo" in provider.asked)
    documents: list[Any] = [
        None, 1, "x", [], {}, [{"issuer": ISSUER}], msgspec.Raw(b""), msgspec.Raw(b"{" * 100_000),
        msgspec.Raw(b"<html>"), {"issuer": ISSUER, "pad": "x" * (1 << 20)},
    ]  # fmt: skip
    for document in documents:
        provider = _provider()
        provider.answers["/.well-known/openid-configuration"] = (200, document)
        assert await _log_in(provider) == 503, str(document)[:80]


@pytest.mark.attack("the answer of the token endpoint or of userinfo is forged or of another user")
async def test_other_answers_of_the_provider() -> None:
    grants: list[Any] = [
        None, 1, "x", [], {}, {"id_token": None}, {"id_token": 1}, {"id_token": ["x"]},
        {"id_token": {}}, {"access_token": "access"}, msgspec.Raw(b"["), {"error": "x"},
        {"id_token": "x" * (1 << 20)}, {"id_token": ""},
    ]  # fmt: skip
    for grant in grants:
        provider = _provider()
        provider.answers["/token"] = (200, grant)
        assert await _log_in(provider) in (401, 503), str(grant)[:80]
    for status in (201, 204, 301, 302, 307, 400, 401, 403, 500):
        provider = _provider()
        token = _signed(HEAD, RIGHT, provider.keys[0])
        provider.answers["/token"] = (status, {"id_token": token})
        assert await _log_in(provider) == 503, status
    for subject in (None, "", "joe", "Jane", "jane ", ["jane"], {"jane": 1}, 1, True):
        provider = _provider()
        about = {"sub": subject, "email": "boss@example.org", "email_verified": True}
        provider.answers["/userinfo"] = (200, about)
        assert await _log_in(provider) == 401, subject
    for status, answer in (
        (200, []), (200, "x"), (200, None), (200, msgspec.Raw(b"eyJ.eyJ.x")),
        (302, {"sub": "jane"}),
        (401, {"sub": "jane"}), (403, {"email": "a@b"}), (204, msgspec.Raw(b"")),
    ):  # fmt: skip
        provider = _provider()
        provider.answers["/userinfo"] = (status, answer)
        person = await _log_in(provider)
        assert isinstance(person, OpenIdPerson), (status, answer)
        assert person.email == ""


MINE, BOSS = "jane@example.org", "boss@example.org"


@pytest.mark.attack("an e-mail address that nobody has verified is taken for a verified one")
@pytest.mark.parametrize(
    ("signed", "told", "email"),
    [
        *(({"email": BOSS, "email_verified": one}, {}, "")
          for one in (None, False, "false", "False", "TRUE", "yes", 0, 1, 1.0, "1", "", [], [True],
                      {"email": True}, BOSS)),
        ({"email": BOSS, "email_verified": True}, {}, BOSS),
        ({"email": BOSS, "email_verified": "true"}, {}, BOSS),
        ({"email": BOSS}, {"email_verified": True}, ""),
        ({"email": BOSS}, {"email": MINE, "email_verified": True}, MINE),
        ({"email_verified": True}, {"email": BOSS}, ""),
        ({"email_verified": True}, {"email": BOSS, "email_verified": False}, ""),
        ({"email": BOSS, "email_verified": False}, {"email": MINE, "email_verified": True}, ""),
        ({"email": BOSS, "email_verified": False}, {"email_verified": True}, ""),
        ({"email": [BOSS], "email_verified": True}, {}, ""),
        ({"email": {"x": BOSS}, "email_verified": True}, {}, ""),
        ({}, {"email": BOSS, "email_verified": True}, BOSS),
        ({}, {"email": BOSS, "email_verified": "no"}, ""),
    ],
)  # fmt: skip
async def test_the_verified_email(signed: dict[str, Any], told: dict[str, Any], email: str) -> None:
    provider = _provider()
    provider.claims, provider.described = signed, told
    person = await _log_in(provider)
    assert isinstance(person, OpenIdPerson)
    assert person.email == email


@pytest.mark.attack("a claim of groups has another type, thousands of groups, or another spelling")
async def test_claims_of_groups() -> None:
    many = [f"g{number}" for number in range(5_000)]
    for value, groups in (
        ("lab", {"lab"}), ("lab admin", {"lab admin"}), ("lab,admin", {"lab,admin"}), (None, set()),
        ("", {""}), ([], set()), ({}, set()), ({"admin": True}, set()), (1, set()), (True, set()),
        (["admin", 1, None, ["admin"], {"admin": 1}], {"admin"}), ([["admin"]], set()),
        ([True], set()), (["Admin", "admin ", " admin", "ADMIN", "ａdmin", "admin\u200b"], None),
        (["*"], {"*"}), (["/admin"], {"/admin"}), (many, set(many[:1000])),
        ([*many, "admin"], set(many[:1000])), (["admin"] * 5_000, {"admin"}),
        (["x" * 20_000], None),
        ('["admin"]', {'["admin"]'}), (["adm\0in"], {"adm\0in"}), (["admin\n"], {"admin\n"}),
    ):  # fmt: skip
        provider = _provider()
        provider.claims = {"groups": value}
        person = await _log_in(provider, GroupsClaim="groups", AdminGroup="admin")
        assert isinstance(person, OpenIdPerson)
        if groups is None:
            assert "admin" not in (person.groups or ())
        else:
            assert set(person.groups or ()) == groups, str(value)[:80]
    # Another claim than that of the configuration gives nothing.
    for name in ("Groups", "group", "roles", "realm_access", "groups ", "https://x/groups"):
        provider = _provider()
        provider.claims = {name: ["admin"]}
        person = await _log_in(provider, GroupsClaim="groups", AdminGroup="admin")
        assert isinstance(person, OpenIdPerson)
        assert not person.groups


LIKE_JANE = [
    "Jane", "JANE", "jane ", " jane", "jane\n", "jane\u200b", "ｊane", "jané", "jane\u0301",
    "j%61ne",
    "jane#jane", "#jane", "jane/", "jane'--", 'jane"', "jane%", "jan_", "*", "x" * 254, "x" * 255,
]  # fmt: skip


@pytest.mark.attack("a person whose subject, name or address looks like another's gets the account")
async def test_persons_who_look_alike(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        here.provider.claims = {"preferred_username": "jane", "email": MINE, "email_verified": True}
        jane = await here.user()
        uuids, names = {jane["uuid"]}, {jane["username"]}
        for subject in LIKE_JANE:
            here.provider.claims = {
                "sub": subject, "preferred_username": "jane", "email": MINE, "email_verified": True,
            }  # fmt: skip
            other = await here.user()
            assert other["uuid"] not in uuids, subject
            assert other["username"] not in names, subject
            assert other["email"] is None
            assert not other["is_admin"]
            uuids.add(other["uuid"])
            names.add(other["username"])
        for name in ("root", "admin", "System", "anonymous", "arvados", "j@ne", "\u202e", "", "9"):
            here.provider.claims = {"sub": f"of {name}", "preferred_username": name}
            other = await here.user()
            assert other["uuid"] not in uuids
            assert not other["is_admin"]


@pytest.mark.attack("a user writes the identity of a person who has not come yet")
async def test_an_identity_is_not_taken_before_its_person_comes(tmp_path: Path) -> None:
    async with login_world(tmp_path) as here:
        here.provider.claims = {"sub": "mallory"}
        reply = await here.finish()
        token = token_of(reply)
        me = await here.world.ok("GET", "users/current", token=token)
        other = await here.world.user("joe")
        joe = (await here.world.ok("GET", "users/current", token=other))["uuid"]
        for uuid in (me["uuid"], joe):
            for changes in (
                {"identity_url": f"{ISSUER}#boss"}, {"identity_url": None}, {"email": BOSS},
                {"is_admin": True}, {"username": "boss"}, {"redirect_to_user_uuid": joe},
                {"user": {"identity_url": f"{ISSUER}#boss"}}, {"is_active": False},
            ):  # fmt: skip
                for method in ("PUT", "PATCH"):
                    await here.world.request(method, f"users/{uuid}", changes, token=token)
        for path in ("users", "users/merge", f"users/{joe}/activate", "users/batch_update"):
            given = {"identity_url": f"{ISSUER}#boss", "username": "b", "new_user_uuid": joe}
            await here.world.request("POST", path, given, token=token)
        after = await here.world.ok("GET", f"users/{me['uuid']}")
        assert (after["identity_url"], after["is_admin"]) == (f"{ISSUER}#mallory", False)
        here.provider.claims = {"sub": "boss", "email": BOSS, "email_verified": True}
        boss = await here.user()
        assert boss["uuid"] not in (me["uuid"], joe)
        assert boss["email"] == BOSS


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[SignOn]:
    provider = FakeIdentityProvider(clock=lambda: 0.0)
    login = {"Enable": True, "Issuer": ISSUER, "ClientID": CLIENT, "ClientSecret": SECRET}
    async with page_site(
        tmp_path,
        connect=lambda _: AsgiTransport(provider),
        Login={"OpenIDConnect": login},
        Users={"NewUsersAreActive": True},
    ) as made:
        provider.clock = lambda: made.world.clock.moment.timestamp()
        yield SignOn(site=made, provider=provider, browser=made.browser())


@pytest.mark.attack("an answer with another state, issuer or code logs a browser in")
async def test_answers_that_are_forged(on: SignOn) -> None:
    for state in (
        "", " ", "0" * 64, "é", "\U0001f600", "%00", "a" * 9000, "null", "undefined", "*",
    ):  # fmt: skip
        answer = await on.come_back(await on.begin(), state=state)
        assert answer.status == 403, state
    for cut in (slice(1, None), slice(None, -1), slice(None, None, -1), slice(0, 32)):
        begun = await on.begin()
        answer = await on.come_back(begun, state=begun["state"][cut])
        assert answer.status == 403
    assert on.provider.asked.count("/token") == 0
    for issuer in (
        "https://evil.example", f"{ISSUER}/", ISSUER.upper(), f"{ISSUER} ", "x" * 9000, "None",
    ):  # fmt: skip
        answer = await on.come_back(await on.begin(), iss=issuer)
        assert answer.status in (401, 503), issuer[:80]
    assert on.provider.asked.count("/token") == 0
    on.provider.metadata = {"authorization_response_iss_parameter_supported": True}
    on.site.world.clock.advance(3601)
    assert (await on.come_back(await on.begin())).status == 401
    assert (await on.come_back(await on.begin(), iss=ISSUER)).status == 303


@pytest.mark.attack("a code or a cookie of one login is used in another one")
async def test_codes_and_cookies_of_other_logins(on: SignOn) -> None:
    victim, mallory = on.browser, on.site.browser()
    begun = await on.begin()
    on.browser = mallory
    own = await on.begin()
    # The code of the victim with the state of mallory, in the browser of mallory.
    assert (await on.come_back({**own, "code": begun["code"]})).status == 401
    for code in ("", "code 0", "guessed", "x" * 9000, "code 1\0", "é"):
        answer = await on.come_back(await on.begin(), code=code)
        assert answer.status in (401, 403, 503), code[:20]
    # The code of mallory, whom the victim's browser is to become.
    own = await on.begin()
    on.browser = victim
    assert (await on.come_back(own)).status == 403
    # The secret of a login that has begun is no session and no link.
    await on.begin()
    cookie = on.browser.cookies["__Host-lading"]
    assert (await on.browser.get("/ui/")).status == 303
    assert (await on.browser.get(f"/ui/login/{cookie}")).status == 403
    assert "__Host-lading" in on.browser.cookies


@pytest.mark.attack("a key that the provider has withdrawn, or fetches for forged tokens")
async def test_keys_change() -> None:
    provider, moment = _provider(), [float(NOW)]
    about = OpenIDConnect(Enable=True, Issuer=ISSUER, ClientID=CLIENT, ClientSecret=SECRET)
    client = OpenIdClient(about, clock=lambda: moment[0], connect=lambda _: AsgiTransport(provider))
    provider.clock = lambda: moment[0]

    async def log_in() -> int:
        try:
            address = await client.login_address(
                redirect_uri=PAGE, state="s", nonce="n", verifier="v"
            )
            code = provider.log_in(address)["code"]
            await client.find_person(code, redirect_uri=PAGE, nonce="n", verifier="v", issuer="")
        except LadingError as error:
            return error.status
        return 200

    assert await log_in() == 200
    provider.signer = make_key("forged")
    for _ in range(50):
        assert await log_in() == 401
    assert provider.asked.count("/keys") == 1
    provider.signer = old = provider.keys[0]
    # The provider has withdrawn the key, and its new set cannot be fetched.
    assert isinstance(old, ECKey)
    provider.keys = [make_key("second")]
    moment[0] += 3601
    provider.answers["/keys"] = (503, None)
    for _ in range(5):
        assert await log_in() == 503
        moment[0] += 11
    del provider.answers["/keys"]
    assert await log_in() == 401
    provider.signer = None
    moment[0] += 11
    assert await log_in() == 200


@pytest.mark.attack("an access token whose unsigned claims, or whose user, are of no form")
async def test_access_tokens_of_any_form(tmp_path: Path) -> None:
    async with login_world(tmp_path, AcceptAccessToken=True) as here:
        times: list[Any] = [-1, 0, -1e308, 10**400, -(10**400), 1e308, "x", None, []]
        for number, ends in enumerate(times):
            claims = _text(_json({"exp": ends, "n": number}))
            token = f"{_text(b'{}')}.{claims}.signature-{number}"
            here.provider.holders[token] = {}
            reply = await here.world.request("GET", "users/current", token=token)
            is_past = isinstance(ends, int | float) and -(10**400) < ends <= 0
            assert reply.status == (401 if is_past else 200), ends
        subjects: list[Any] = [None, "", 1, True, ["jane"], {}, "\0", "x" * 256]
        for number, subject in enumerate(subjects):
            token = f"an-access-token-{number}"
            here.provider.holders[token] = {"sub": subject}
            reply = await here.world.request("GET", "users/current", token=token)
            assert reply.status == 401, subject
