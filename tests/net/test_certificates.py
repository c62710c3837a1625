from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lading.net.certificates import DECADE, derive_key, is_key_of, make_certificate

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def test_a_certificate_is_for_its_name_and_its_key_and_good_for_a_year() -> None:
    text, key = make_certificate("container_3", now=NOW)
    found = x509.load_pem_x509_certificate(text.encode())
    private = serialization.load_pem_private_key(key.encode(), None)
    assert found.public_key() == private.public_key()
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["container_3"]
    assert found.not_valid_before_utc < NOW < NOW + timedelta(days=365) < found.not_valid_after_utc


def test_a_derived_key_follows_from_its_seed_and_no_other() -> None:
    one, again, other = (derive_key(seed * 64) for seed in (b"a", b"a", b"b"))
    assert one.public_key() == again.public_key() != other.public_key()
    assert derive_key(b"\xff" * 64).curve.name == "secp256r1"


def test_a_certificate_is_known_by_its_key() -> None:
    text, _ = make_certificate("container_3", now=NOW)
    made = x509.load_pem_x509_certificate(text.encode()).public_bytes(serialization.Encoding.DER)
    assert not is_key_of(made, b"a" * 64)
    assert not is_key_of(b"no certificate", b"a" * 64)
    for key in (derive_key(b"a" * 64), ed25519.Ed25519PrivateKey.generate()):
        name = x509.Name([])
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(NOW)
            .not_valid_after(NOW + timedelta(days=1))
            .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
        )
        shown = signed.public_bytes(serialization.Encoding.DER)
        assert is_key_of(shown, b"a" * 64) is not isinstance(key, ed25519.Ed25519PrivateKey)


def test_a_certificate_for_hosts_and_addresses_and_for_none() -> None:
    hosts = ("localhost", "127.0.0.1", "localhost", "::1")
    text, _ = make_certificate("a", now=NOW, life=DECADE, hosts=hosts)
    found = x509.load_pem_x509_certificate(text.encode())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert found.not_valid_after_utc == NOW + DECADE
    bare = x509.load_pem_x509_certificate(make_certificate("a", now=NOW, hosts=())[0].encode())
    with pytest.raises(x509.ExtensionNotFound):
        bare.extensions.get_extension_for_class(x509.SubjectAlternativeName)
