"""Calls to a provider of OpenID Connect: wrong tokens, wrong answers, changed keys."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey

from lading.api.logins.provider_client import OpenIdClient
from lading.config.logins import OpenIDConnect
from lading.core.errors import Invalid
from lading.testing.identity_provider import CLIENT, ISSUER, make_key
from tests.api.logins.logging_in import LoginWorld, login_world


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LoginWorld]:
    async with login_world(tmp_path) as made:
        yield made


async def test_a_login(here: LoginWorld) -> None:
    assert (await here.finish()).status == 200
    # What the provider says of itself and its keys are kept.
    assert (await here.finish()).status == 200
    assert here.provider.asked.count("/keys") == 1
    assert here.provider.asked.count("/.well-known/openid-configuration") == 1


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"nonce": "other"}, "nonce"),
        ({"aud": "other"}, "aud"),
        ({"iss": "https://other"}, "iss"),
        ({"exp": 1}, "expired"),
        ({"sub": None}, "sub"),
    ],
)
async def test_claims_that_are_wrong(here: LoginWorld, claims: dict[str, Any], says: str) -> None:
    here.provider.claims = claims
    reply = await here.finish()
    assert reply.status == 401
    assert says in reply.error


async def test_a_signature_with_another_key(here: LoginWorld) -> None:
    here.provider.signer = make_key("first")
    assert (await here.finish()).status == 401
    here.provider.signer = make_key("unknown")
    reply = await here.finish()
    assert (reply.status, "signature" in reply.error) == (401, True)


def _signed_with(secret: bytes) -> str:
    """A token by HS256, which no library makes of a public key."""
    parts = [b'{"alg":"HS256","kid":"first"}', b'{"sub":"jane"}']
    text = ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)
    proof = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(proof).decode().rstrip('=')}"


async def test_a_public_key_is_no_shared_secret(here: LoginWorld) -> None:
    public = here.provider.keys[0]
    assert isinstance(public, ECKey)
    here.provider.token = _signed_with(public.as_pem(private=False))
    reply = await here.finish()
    assert (reply.status, "signature" in reply.error) == (401, True)


async def test_a_shared_secret_among_the_public_keys(here: LoginWorld) -> None:
    secret = OctKey.generate_key(256, {"kid": "shared"})
    here.provider.keys.append(secret)
    here.provider.signer, here.provider.algorithm = secret, "HS256"
    reply = await here.finish()
    assert (reply.status, "signature" in reply.error) == (401, True)


@pytest.mark.parametrize("token", ["eyJhbGciOiJub25lIn0.e30.", "x", "..", "a.b.c", "é"])
async def test_what_is_no_token(here: LoginWorld, token: str) -> None:
    here.provider.token = token
    assert (await here.finish()).status == 401


async def test_an_answer_without_a_token(here: LoginWorld) -> None:
    here.provider.token = 5
    assert (await here.finish()).status == 503


async def test_a_code_is_good_once(here: LoginWorld) -> None:
    begun = await here.begin()
    assert (await here.take(begun)).status == 200
    reply = await here.take(begun)
    assert (reply.status, "it was used" in reply.error) == (401, True)


async def test_a_code_needs_its_verifier_and_its_nonce(here: LoginWorld) -> None:
    other = await here.begin()
    assert (await here.finish(code_verifier=other["code_verifier"])).status == 401
    assert (await here.finish(nonce=other["nonce"])).status == 401
    assert (await here.finish(code="guessed")).status == 401


async def test_an_answer_of_another_issuer(here: LoginWorld) -> None:
    assert (await here.finish(iss="https://other")).status == 401
    assert (await here.finish(iss=ISSUER)).status == 200


async def test_a_provider_changes_its_keys(here: LoginWorld) -> None:
    assert (await here.finish()).status == 200
    here.provider.keys.insert(0, make_key("second"))
    # Forged tokens must not make the server fetch keys again and again.
    assert (await here.finish()).status == 401
    assert here.provider.asked.count("/keys") == 1
    here.world.clock.advance(11)
    assert (await here.finish()).status == 200
    assert here.provider.asked.count("/keys") == 2


async def test_a_key_that_was_withdrawn_ends_within_an_hour(here: LoginWorld) -> None:
    assert (await here.finish()).status == 200
    here.provider.signer = here.provider.keys.pop()
    here.provider.keys.append(make_key("second"))
    here.world.clock.advance(3601)
    assert (await here.finish()).status == 401


async def test_claims_from_userinfo(here: LoginWorld) -> None:
    here.provider.described = {"sub": "jane", "email": "j@x.org", "email_verified": True}
    assert (await here.user())["email"] == "j@x.org"
    here.provider.described = {"sub": "joe"}
    reply = await here.finish()
    assert (reply.status, "another person" in reply.error) == (401, True)


async def test_a_provider_that_is_down(here: LoginWorld) -> None:
    here.provider.is_down = True
    reply = await here.world.request("POST", "openid_connect/begin", token="")
    assert (reply.status, ISSUER in reply.error) == (503, True)
    here.provider.is_down = False
    begun = await here.begin()
    here.provider.is_down = True
    # What it said of itself is kept, for longer than usual if need be.
    here.world.clock.advance(3700)
    assert (await here.take(begun)).status == 503


async def test_a_provider_with_another_name(here: LoginWorld) -> None:
    here.provider.metadata = {"issuer": "https://other"}
    reply = await here.world.request("POST", "openid_connect/begin", token="")
    assert (reply.status, "calls itself" in reply.error) == (503, True)


async def test_a_secret_in_the_form(here: LoginWorld) -> None:
    here.provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await here.finish()).status == 200


async def test_a_wrong_secret(tmp_path: Path) -> None:
    async with login_world(tmp_path, ClientSecret="other") as here:
        reply = await here.finish()
        assert (reply.status, "invalid_client" in reply.error) == (503, True)
        assert "other" not in reply.error


async def test_an_answer_without_end(here: LoginWorld) -> None:
    here.provider.metadata = {"much": "x" * (1 << 20)}
    reply = await here.world.request("POST", "openid_connect/begin", token="")
    assert (reply.status, "bytes" in reply.error) == (503, True)


def test_a_configuration_that_cannot_be() -> None:
    with pytest.raises(Invalid, match="GroupsClaim"):
        settings = OpenIDConnect(Issuer=ISSUER, ClientID=CLIENT, AdminGroup="admins")
        OpenIdClient(settings, clock=lambda: 0.0)
