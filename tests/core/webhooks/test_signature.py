"""Signatures of deliveries."""

from __future__ import annotations

import base64
import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from lading.core.webhooks.signature import make_secret, sign


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of the specification of Standard Webhooks.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = sign(
        secret, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=body
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(min_size=32, max_size=32), st.binary(), st.integers(0, 1 << 40))
def test_a_signature_covers_id_time_and_body(key: bytes, body: bytes, timestamp: int) -> None:
    headers = sign(make_secret(key), message_id="id", timestamp=timestamp, body=body)
    expected = hmac.new(key, f"id.{timestamp}.".encode() + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
