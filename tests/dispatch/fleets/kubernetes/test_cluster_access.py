from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lading.core.errors import Invalid, Unavailable
from lading.dispatch.fleets.kubernetes.cluster_access import TokenFile, from_kubeconfig, inside
from lading.wiring.directory import ensure_certificate

SERVER = "https://cluster.example:6443"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A certificate and its key, PEM."""
    folder = tmp_path_factory.mktemp("certificate")
    files = folder / "crt", folder / "key"
    ensure_certificate(*files, host="127.0.0.1", now=datetime.now(UTC))
    return files[0].read_bytes(), files[1].read_bytes()


def write(folder: Path, *, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "main",
                "clusters": [{"name": "c", "cluster": {"server": SERVER, **cluster}}],
                "users": [{"name": "u", "user": user or {}}],
                "contexts": [
                    {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "work"}},
                    {"name": "bare", "context": {"cluster": "c", "user": "none"}},
                    {"name": "lost", "context": {"cluster": "none", "user": "u"}},
                ],
            }
        )
    )
    return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_token_and_an_authority(tmp_path: Path, certificate: tuple[bytes, bytes]) -> None:
    data = encoded(certificate[0])
    path = write(tmp_path, user={"token": "abc"}, **{"certificate-authority-data": data})
    found = from_kubeconfig(path)
    assert (found.url, found.namespace, found.token()) == (SERVER, "work", "abc")
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1
    assert "abc" not in repr(found)


def test_a_client_certificate(tmp_path: Path, certificate: tuple[bytes, bytes]) -> None:
    (tmp_path / "key.pem").write_bytes(certificate[1])
    user = {"client-certificate-data": encoded(certificate[0]), "client-key": "key.pem"}
    found = from_kubeconfig(write(tmp_path, user=user), context="main", namespace="other")
    assert (found.namespace, found.token()) == ("other", "")


def test_an_unchecked_certificate_has_to_be_asked_for(tmp_path: Path) -> None:
    unchecked: dict[str, Any] = {"insecure-skip-tls-verify": True}
    found = from_kubeconfig(write(tmp_path, **unchecked), context="bare")
    assert found.tls.verify_mode is ssl.CERT_NONE
    assert found.namespace == "default"


def test_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    path, now = tmp_path / "token", [0.0]
    token = TokenFile(path, clock=lambda: now[0])
    with pytest.raises(Unavailable, match="no token can be read"):
        token()
    path.write_text("first\n")
    assert token() == "first"
    path.write_text("second\n")
    assert token() == "first"
    now[0] = 61.0
    assert token() == "second"
    path.unlink()
    now[0] = 200.0
    assert token() == "second"


@pytest.mark.parametrize(
    ("context", "user", "cluster", "said"),
    [
        ("none", {}, {}, "there is no context 'none'; there are main, bare, lost"),
        ("lost", {}, {}, "there is no cluster 'none'"),
        ("main", {}, {"server": "http://x"}, "server 'http://x' is not https"),
        ("main", {"exec": {"command": "sh"}}, {}, "only tokens and client certificates are used"),
        ("main", {"username": "me"}, {}, "only tokens and client certificates are used"),
        ("main", {}, {"certificate-authority-data": "!"}, "not base64"),
        ("main", {}, {"certificate-authority": "gone"}, "gone: cannot be read"),
        ("main", {"client-certificate-data": encoded(b"x")}, {}, "not readable as PEM"),
    ],
)
def test_a_fault_of_a_kubeconfig_is_named(
    tmp_path: Path, context: str, user: dict[str, Any], cluster: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        from_kubeconfig(write(tmp_path, user=user, **cluster), context=context)


@pytest.mark.parametrize("text", ["token: [secret", "token", "clusters: secret"])
def test_a_file_that_is_no_kubeconfig_is_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Invalid, match="not a kubeconfig") as caught:
        from_kubeconfig(path)
    assert "secret" not in str(caught.value)
    with pytest.raises(Invalid, match="cannot be read"):
        from_kubeconfig(tmp_path / "none")


def test_inside_a_pod_its_service_account_is_used(
    tmp_path: Path, certificate: tuple[bytes, bytes]
) -> None:
    write_account: dict[str, bytes] = {
        "ca.crt": certificate[0], "namespace": b"work", "token": b"abc\n",
    }  # fmt: skip
    with pytest.raises(Invalid, match="no Pod with a service account"):
        inside("", account=tmp_path)
    for name, data in write_account.items():
        (tmp_path / name).write_bytes(data)
    found = inside("", account=tmp_path)
    assert (found.namespace, found.token()) == ("work", "abc")
    assert found.url.startswith("https://")
    assert inside("other", account=tmp_path).namespace == "other"
