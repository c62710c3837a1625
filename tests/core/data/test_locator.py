from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import locator
from lading.core.data.locator import EMPTY_BLOCK, Locator
from lading.core.errors import Malformed, Unauthenticated

HASH = "acbd18db4cc2f85cedef654fccc4a4d8"
TOKEN = "v2/zzzzz-gj3su-077z32aux8dg2s1/3kg6k6lzmp9kj5cpkcoxie963cmvjahbt2fod9zru30k1jqdmi"
KEY = (
    "zfhgfenhffzltr9dixws36j1yhksjoll2grmku38mi7yxd66h5"
    "j4q9w4jzanezacp8s6q0ro3hxakfye02152hncy6zml2ed0uc"
)
TTL = 1209600


def _sign(
    text: str = f"{HASH}+3",
    *,
    token: str = TOKEN,
    expiry: int = 2000,
    ttl: int = TTL,
    key: str = KEY,
) -> str:
    return locator.signed(text, token=token, expiry=expiry, ttl=ttl, key=key)


def _verify(
    text: str, *, token: str = TOKEN, ttl: int = TTL, key: str = KEY, now: int = 1000
) -> None:
    locator.verify(text, token=token, ttl=ttl, key=key, now=now)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HASH}+3", Locator(HASH, 3)),
        (HASH, Locator(HASH)),
        (f"{HASH}+3+K@zzzzz+Rabcde-f@5", Locator(HASH, 3, ("K@zzzzz", "Rabcde-f@5"))),
        (f"{HASH}+K@zzzzz", Locator(HASH, None, ("K@zzzzz",))),
    ],
)
def test_parse(text: str, expected: Locator) -> None:
    assert locator.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        HASH[:-1],
        HASH.upper(),
        f"{HASH}+",
        f"{HASH}+3+",
        f"{HASH}+3+a",
        f"{HASH}+٣",
        f"{HASH}+3\n",
    ],
)
def test_what_is_no_locator_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="not a block locator"):
        locator.parse(text)


def test_bare_is_hash_and_size() -> None:
    assert locator.parse(f"{HASH}+3+K@zzzzz").bare == f"{HASH}+3"
    assert locator.parse(f"{HASH}+K@zzzzz").bare == HASH


def test_signature_by_the_published_formula() -> None:
    # HMAC-SHA1 of "hash@token@expiry@ttl", computed with openssl (docs/spec/api, section
    # Manifests).
    hint = locator.sign(HASH, token=TOKEN, expiry=0x7FFFFFFF, ttl=TTL, key=KEY)
    assert hint == "+Ad61efc56babafa9dbe636b5ee5e4882510023fae@7fffffff"


def test_a_short_expiry_is_padded() -> None:
    assert locator.sign(HASH, token=TOKEN, expiry=255, ttl=TTL, key=KEY).endswith("@000000ff")


@pytest.mark.parametrize(("token", "key"), [("", KEY), (TOKEN, "")])
def test_nothing_is_signed_without_key_or_token(token: str, key: str) -> None:
    assert locator.sign(HASH, token=token, expiry=1, ttl=TTL, key=key) == ""


def test_signing_replaces_the_old_signature_and_keeps_other_hints() -> None:
    old = _sign(f"{HASH}+3+K@zzzzz", expiry=1500)
    new = _sign(old, expiry=2000)
    assert new.startswith(f"{HASH}+3+K@zzzzz+A")
    assert new.count("+A") == 1
    assert new != old


def test_the_empty_block_is_neither_signed_nor_checked() -> None:
    assert _sign(EMPTY_BLOCK) == EMPTY_BLOCK
    _verify(EMPTY_BLOCK)


@given(
    st.integers(1000, 2**33),
    st.text(st.characters(codec="ascii", exclude_characters="@"), min_size=1),
)
def test_what_is_signed_is_verified(expiry: int, token: str) -> None:
    _verify(_sign(expiry=expiry, token=token), token=token)


@pytest.mark.parametrize(
    "changed",
    [
        lambda: _verify(_sign(), token=TOKEN.rpartition("/")[2]),
        lambda: _verify(_sign(), ttl=TTL + 1),
        lambda: _verify(_sign(), key="other"),
        lambda: _verify(_sign().replace(HASH, "f" * 32)),
        lambda: _verify(_sign(expiry=2000).replace("@000007d0", "@000007d1")),
    ],
)
def test_a_forged_signature_is_malformed(changed: object) -> None:
    with pytest.raises(Malformed, match="not valid for this token"):
        changed()  # type: ignore[operator]


@pytest.mark.parametrize(
    "hints", ["", "+K@zzzzz", "+Afoo", "+A" + "0" * 40 + "@1", f"+A{'0' * 40}@00000001" * 2]
)
def test_a_missing_signature_is_malformed(hints: str) -> None:
    with pytest.raises(Malformed, match="no permission signature"):
        _verify(f"{HASH}+3{hints}")


def test_an_expired_signature_is_unauthenticated() -> None:
    _verify(_sign(expiry=2000), now=2000)
    with pytest.raises(Unauthenticated, match="expired"):
        _verify(_sign(expiry=2000), now=2001)


def test_until_when_a_signature_lasts() -> None:
    assert locator.expiry_of("0" * 32 + "+3+A" + "1" * 40 + "@0000000f+Kx") == 15
    assert locator.expiry_of("0" * 32 + "+3") == locator.expiry_of("0" * 32 + "+3+Ax") == 0
