"""Calls to the configured provider of OpenID Connect: discovery, keys, codes, claims of a person.

The metadata of the provider and its keys are kept for an hour. A token that is signed with an
unknown key makes the keys be fetched again, since providers change keys; keys are fetched at most
once in ten seconds, so that forged tokens cause no load. All answers are bounded in size and time,
and so is the number of exchanges at a time: anybody may begin one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from lading.api.server.features import FeatureKey
from lading.client.transport import HttpTransport, Transport
from lading.config.logins import OpenIDConnect
from lading.core.errors import LadingError, Unauthenticated, Unavailable
from lading.core.protocols import openid_connect as rules
from lading.core.protocols.openid_connect import OpenIdClaims, OpenIdPerson, OpenIdProvider
from lading.core.values import Json, JsonObject

# Seconds of one call; a person waits for it.
_TIMEOUT: Final = 10.0
# Bytes of an answer; keys and metadata have some 10 KB.
_LARGEST: Final = 1 << 20
# Seconds; see the module.
_KNOWN_FOR: Final = 3600.0
# Seconds between two fetches for unknown keys.
_KEYS_EVERY: Final = 10.0
# Exchanges with the provider at a time: anybody may begin one.
_AT_A_TIME: Final = 16
# Seconds, and number, of access tokens that are known to be none.
_UNKNOWN_FOR: Final = 60.0
_MOST_UNKNOWN: Final = 10_000
# Providers have two or three keys at a time.
_MOST_KEYS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"


class OpenIdClient:
    """The provider of the configuration. `connect` makes a transport to an origin; `close` it."""

    def __init__(
        self,
        settings: OpenIDConnect,
        *,
        clock: Callable[[], float],
        connect: Callable[[str], Transport] = HttpTransport,
    ) -> None:
        rules.check_settings(
            settings.Issuer,
            settings.ClientID,
            settings.AuthenticationRequestParameters,
            groups_claim=settings.GroupsClaim,
            uses_groups=bool(settings.Groups or settings.RequiredGroup or settings.AdminGroup),
        )
        self._settings = settings
        self._clock = clock
        self._connect = connect
        self._transports: dict[str, Transport] = {}
        self._provider: OpenIdProvider | None = None
        self._discovered = self._fetched = 0.0
        self._asked_for_keys: float | None = None
        self._keys: list[Any] = []
        self._learning = asyncio.Lock()
        self._exchanging = asyncio.Semaphore(_AT_A_TIME)
        self._asking = asyncio.Semaphore(_AT_A_TIME)
        # Hashes of access tokens that the provider does not know -> the time to ask again.
        self._unknown: dict[bytes, float] = {}

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for transport in self._transports.values():
            await transport.close()

    async def login_address(
        self, *, redirect_uri: str, state: str, nonce: str, verifier: str
    ) -> str:
        """The address at which a person logs in. Raises Unavailable."""
        address = (await self._discover()).authorization
        query = rules.login_query(
            client_id=self._settings.ClientID,
            redirect_uri=redirect_uri,
            state=state,
            nonce=nonce,
            verifier=verifier,
            parameters=self._settings.AuthenticationRequestParameters,
        )
        return _with_query(address, query)

    async def find_person(
        self, code: str, *, redirect_uri: str, nonce: str, verifier: str, issuer: str
    ) -> tuple[OpenIdPerson, str]:
        """The person who has logged in, by the code of the provider's answer, and the ID token;
        `issuer` is that which the answer names, "" for none. Raises Unauthenticated, Unavailable.
        """
        if self._exchanging.locked():
            raise Unavailable("many people log in just now; try again in a moment")
        async with self._exchanging:
            provider = await self._discover()
            rules.check_answer(provider, named=issuer)
            granted = await self._exchange(provider, code, redirect_uri, verifier)
            claims = await self._verify(provider, granted.get("id_token"))
            subject = rules.check_claims(
                claims,
                issuer=provider.issuer,
                client_id=self._settings.ClientID,
                nonce=nonce,
                now=self._clock(),
            )
            names = self._names()
            access = granted.get("access_token")
            if names.lacking(claims) and provider.userinfo and isinstance(access, str):
                more = await self._ask_about(provider, access, subject)
                claims = rules.merge_claims(claims, more, names)
            person = rules.read_person(claims, issuer=provider.issuer, subject=subject, names=names)
            return person, str(granted["id_token"])

    async def logout_address(self, id_token: str, *, redirect_uri: str) -> str:
        """The address at which the login of an ID token is ended, which leads back to
        `redirect_uri`; "" if the provider offers none. Raises Unavailable.
        """
        address = (await self._discover()).logout
        query = rules.logout_query(
            client_id=self._settings.ClientID, id_token=id_token, redirect_uri=redirect_uri
        )
        return _with_query(address, query) if address else ""

    async def find_holder(self, access: str) -> OpenIdPerson | None:
        """The person whose access token this is, None if the provider does not know it. A token
        that it did not know is not asked about again for a minute. Raises Unavailable.
        """
        name, now = hashlib.sha256(access.encode()).digest(), self._clock()
        if now < self._unknown.get(name, 0.0):
            return None
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._asking.acquire()
        except TimeoutError as error:
            raise Unavailable("the provider is asked about many tokens; try again") from error
        try:
            provider = await self._discover()
            claims = await self._userinfo(provider, access)
        finally:
            self._asking.release()
        if claims is None:
            self._unknown.pop(name, None)
            self._unknown[name] = now + _UNKNOWN_FOR
            if len(self._unknown) > _MOST_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            return None
        subject = rules.check_subject(claims)
        return rules.read_person(
            claims, issuer=provider.issuer, subject=subject, names=self._names()
        )

    def _names(self) -> OpenIdClaims:
        return OpenIdClaims(
            email=self._settings.EmailClaim,
            email_verified=self._settings.EmailVerifiedClaim,
            username=self._settings.UsernameClaim,
            groups=self._settings.GroupsClaim,
        )

    async def _discover(self) -> OpenIdProvider:
        async with self._learning:
            now = self._clock()
            if self._provider is None or now >= self._discovered + _KNOWN_FOR:
                issuer = self._settings.Issuer
                try:
                    document = await self._get(issuer.rstrip("/") + rules.DISCOVERY)
                    self._provider = rules.read_provider(document, issuer)
                except Unavailable:
                    # Metadata of an hour ago is better than none.
                    if self._provider is None:
                        raise
                self._discovered = now
            return self._provider

    async def _exchange(
        self, provider: OpenIdProvider, code: str, redirect_uri: str, verifier: str
    ) -> JsonObject:
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"content-type": _FORM, "accept": "application/json"}
        if not settings.ClientSecret or provider.posts_secret:
            form["client_id"] = settings.ClientID
        if settings.ClientSecret and provider.posts_secret:
            form["client_secret"] = settings.ClientSecret
        elif settings.ClientSecret:
            # RFC 6749, section 2.3.1: both parts are encoded like a form.
            pair = f"{quote_plus(settings.ClientID)}:{quote_plus(settings.ClientSecret)}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, answer = await self._call("POST", provider.token, headers, urlencode(form).encode())
        document = answer if isinstance(answer, dict) else {}
        if status == 200:
            return document
        if document.get("error") == "invalid_grant":
            raise Unauthenticated("the provider knows no such login, or it was used; log in again")
        raise Unavailable(
            f"the provider {provider.issuer} gave no token: {status}"
            f" {str(document.get('error'))[:80]}"
        )

    async def _verify(self, provider: OpenIdProvider, token: Json) -> JsonObject:
        """The claims of an ID token whose signature is right. Raises Unauthenticated,
        Unavailable.
        """
        from joserfc import jws
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        if not isinstance(token, str) or len(token) > _LARGEST:
            raise Unavailable(f"the provider {provider.issuer} gave no ID token")
        if self._clock() >= self._fetched + _KNOWN_FOR:
            # One of these keys may be withdrawn meanwhile: without new ones nobody logs in.
            keys = self._keys
            if not await self._fetch_keys(provider, keys):
                raise Unavailable(f"the provider {provider.issuer} shows no keys; try again")
        while True:
            keys = self._keys
            try:
                # A key of the set, by the name in the token; a `KeySet` refuses to be empty.
                signed = jws.deserialize_compact(
                    token, KeySet(keys), algorithms=list(rules.ALGORITHMS)
                )
                claims: Json = msgspec.json.decode(signed.payload)
            except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
                if await self._fetch_keys(provider, keys):
                    continue
                raise Unauthenticated(
                    "the ID token of the provider was refused: its signature is wrong"
                ) from error
            if isinstance(claims, dict):
                return claims
            raise Unauthenticated("the ID token of the provider was refused: it has no claims")

    async def _fetch_keys(self, provider: OpenIdProvider, tried: list[Any]) -> bool:
        """Fetch the keys unless other keys than `tried` are known already; False where it is too
        early for that.
        """
        async with self._learning:
            if self._keys is not tried:
                return True
            now, asked = self._clock(), self._asked_for_keys
            if asked is not None and now < asked + _KEYS_EVERY:
                return False
            self._asked_for_keys = now
            document = await self._get(provider.keys)
            listed = document.get("keys") if isinstance(document, dict) else None
            if not isinstance(listed, list):
                raise Unavailable(f"the provider {provider.issuer} shows no keys")
            self._keys, self._fetched = _usable(listed), now
            return True

    async def _ask_about(self, provider: OpenIdProvider, access: str, subject: str) -> JsonObject:
        """Further claims of a person. Raises Unauthenticated when they are another person's."""
        claims = await self._userinfo(provider, access)
        if claims is None:
            return {}
        # Core 1.0, section 5.3.2.
        if claims.get("sub") != subject:
            raise Unauthenticated("the provider described another person; log in again")
        return claims

    async def _userinfo(self, provider: OpenIdProvider, access: str) -> JsonObject | None:
        """The claims of the holder of an access token; None if the provider refuses it. Raises
        Unavailable.
        """
        if not provider.userinfo:
            return None
        headers = {"authorization": f"Bearer {access}", "accept": "application/json"}
        status, found = await self._call("GET", provider.userinfo, headers)
        if status >= 500:
            raise Unavailable(f"the provider {provider.issuer} tells no claims: {status}")
        return found if status == 200 and isinstance(found, dict) else None

    async def _get(self, address: str) -> Json:
        status, document = await self._call("GET", address, {"accept": "application/json"})
        if status != 200:
            raise Unavailable(f"{address}: answered {status}")
        return document

    async def _call(
        self, method: str, address: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Json]:
        parts = urlsplit(address)
        origin = f"{parts.scheme}://{parts.netloc}"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        transport = self._transports.setdefault(origin, self._connect(origin))
        received = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT):
                async with transport.stream(
                    method, path, headers=headers, body=body, timeout=_TIMEOUT
                ) as answer:
                    async for piece in answer.chunks:
                        received += piece
                        if len(received) > _LARGEST:
                            raise Unavailable(f"{origin}: an answer has more than {_LARGEST} bytes")
        except TimeoutError as error:
            raise Unavailable(f"{origin}: no answer within {_TIMEOUT:g} s") from error
        except Unavailable:
            raise
        except LadingError as error:
            raise Unavailable(f"{origin}: {error.message}") from error
        try:
            return answer.status, msgspec.json.decode(bytes(received))
        except (msgspec.DecodeError, RecursionError):
            return answer.status, None


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _usable(listed: list[Json]) -> list[Any]:
    """The keys for signatures, without those that cannot be read."""
    from joserfc import jwk
    from joserfc.errors import JoseError

    keys = []
    for key in listed[:_MOST_KEYS]:
        # A shared secret among public keys would be known to everybody.
        if isinstance(key, dict) and key.get("kty") != "oct" and key.get("use", "sig") == "sig":
            with suppress(JoseError, ValueError, KeyError, TypeError):
                keys.append(jwk.import_key(key))  # type: ignore[arg-type]
    return keys


PROVIDER: Final = FeatureKey[OpenIdClient | None]("provider of logins", lambda: None)
"""The provider of OpenID Connect at which people log in; None where there is none."""
