from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from lading.client.certificates import make_certificate

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def test_a_certificate_is_for_its_name_and_its_key_and_good_for_a_year() -> None:
    text, key = make_certificate("container_3", now=NOW)
    found = x509.load_pem_x509_certificate(text.encode())
    private = serialization.load_pem_private_key(key.encode(), None)
    assert found.public_key() == private.public_key()
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["container_3"]
    assert found.not_valid_before_utc < NOW < NOW + timedelta(days=365) < found.not_valid_after_utc
