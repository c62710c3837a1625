"""Claims of forwarded calls: only as they were made, where they are meant for, and not for long."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from lading.core.errors import Unauthenticated
from lading.core.protocols import forwarding_claims
from lading.core.protocols.forwarding_claims import ForwardingClaim, Purpose

KEY = b"k" * 32
CLAIM = ForwardingClaim(
    user_uuid="zzzzz-tpzed-000000000000001", container_uuid="zzzzz-dz642-000000000000001",
    purpose=Purpose.SHELL, audience="https://there:1/", expires=1000, address="10.0.0.1",
)  # fmt: skip
SAID = forwarding_claims.sign(KEY, CLAIM)


def verify(
    said: str,
    *,
    key: bytes = KEY,
    purpose: Purpose = Purpose.SHELL,
    audience: str = "",
    now: float = 0,
) -> ForwardingClaim:
    return forwarding_claims.verify(
        key, said, purpose=purpose, audience=audience or CLAIM.audience, now=now
    )


def test_a_claim_comes_as_it_was_made() -> None:
    assert verify(SAID) == CLAIM
    assert verify(SAID, now=1000) == CLAIM
    assert "\n" not in SAID
    forwarding_claims.check_container(CLAIM, CLAIM.container_uuid)


def test_it_is_worth_nothing_elsewhere() -> None:
    for refused in (
        {"key": b"other"}, {"purpose": Purpose.PORT}, {"audience": "https://elsewhere:1/"},
        {"now": 1001.0},
    ):  # fmt: skip
        with pytest.raises(Unauthenticated):
            verify(SAID, **refused)
    with pytest.raises(Unauthenticated):
        forwarding_claims.check_container(CLAIM, "zzzzz-dz642-000000000000002")


def test_another_text_is_refused() -> None:
    text, _, mac = SAID.partition(".")
    forged = forwarding_claims.sign(
        b"other", replace(CLAIM, user_uuid="zzzzz-tpzed-000000000000000")
    ).partition(".")[0]
    plain = base64.b64decode(text, altchars=b"-_") + b"\nmore"
    for said in (
        "", ".", text, f".{mac}", f"{text}.", f"{text}.{mac}0", f"{text}.{mac.upper()}",
        f"{forged}.{mac}", f"!.{mac}", f"\u00e9.{mac}", f"{text}.\u00e9",
        f"{base64.urlsafe_b64encode(plain).decode()}.{mac}",
    ):  # fmt: skip
        with pytest.raises(Unauthenticated):
            verify(said)
