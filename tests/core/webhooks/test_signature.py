"""Signatures of deliveries."""

from __future__ import annotations

import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from lading.core.records.schema import Record
from lading.core.webhooks.signature import make_secret, sign, valid_secrets


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of the specification of Standard Webhooks.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = sign(
        [secret], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=body
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(min_size=32, max_size=32), st.binary(), st.integers(0, 1 << 40))
def test_a_signature_covers_id_time_and_body(key: bytes, body: bytes, timestamp: int) -> None:
    headers = sign([make_secret(key)], message_id="id", timestamp=timestamp, body=body)
    expected = hmac.new(key, f"id.{timestamp}.".encode() + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"


def test_each_valid_secret_signs() -> None:
    new, old = make_secret(b"n" * 32), make_secret(b"o" * 32)
    webhook: Record = {"secret": new, "former_secret": old, "former_secret_until": "2026-02-01"}
    during, after = (valid_secrets(webhook, now=now) for now in ("2026-01-31", "2026-02-01"))
    assert (during, after) == ((new, old), (new,))
    assert valid_secrets({**webhook, "former_secret": None}, now="2026-01-31") == (new,)
    both, one, other = (
        sign(each, message_id="id", timestamp=1, body=b"x")["webhook-signature"]
        for each in (during, [new], [old])
    )
    assert both == f"{one} {other}"
