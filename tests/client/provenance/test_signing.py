"""Signatures of crates: those of ssh-keygen, both ways."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from lading.client.provenance.signing import NAMESPACE, load_key, load_signers, sign, verify
from lading.core.errors import Invalid


def _key(place: Path, name: str = "key", kind: str = "ed25519") -> Path:
    path = place / name
    _run("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "ann", "-f", str(path))
    return path


def _run(*command: str, given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ssh_keygen_verifies_what_is_signed_here(tmp_path: Path) -> None:
    key = _key(tmp_path)
    (tmp_path / "m.sig").write_text(sign(b"message", load_key(key)))
    (tmp_path / "allowed").write_text(f"ann {(tmp_path / 'key.pub').read_text()}")
    command = ("ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "allowed"), "-I", "ann")
    said = _run(*command, "-n", NAMESPACE, "-s", str(tmp_path / "m.sig"), given=b"message")
    assert b"Good" in said


def test_what_ssh_keygen_signs_is_verified_here(tmp_path: Path) -> None:
    key = _key(tmp_path)
    (tmp_path / "m").write_bytes(b"message")
    _run("ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(tmp_path / "m"))
    signature = (tmp_path / "m.sig").read_text()
    signers = load_signers(tmp_path / "key.pub")
    name = verify(b"message", signature, signers)
    assert name.encode() in _run("ssh-keygen", "-l", "-f", str(key))
    with pytest.raises(Invalid, match="was changed"):
        verify(b"massage", signature)
    other = load_signers(Path(f"{_key(tmp_path, 'other')}.pub"))
    with pytest.raises(Invalid, match="none of the signers"):
        verify(b"message", signature, other)


def test_signatures_that_are_none(tmp_path: Path) -> None:
    signature = sign(b"m", load_key(_key(tmp_path)))
    blob = base64.b64decode("".join(signature.split("\n")[1:-2]))

    def armoured(data: bytes) -> str:
        lines = signature.split("\n")
        return "\n".join((lines[0], base64.b64encode(data).decode(), lines[-2]))

    cases = {
        "no SSH signature": "x",
        "not in base64": signature.replace("\n", "\n!", 1),
        "unknown version": armoured(b"SSHSIG\0\0\0\2" + blob[10:]),
        "cut off": armoured(blob[:-9]),
        "not one for": armoured(blob.replace(NAMESPACE.encode(), b"x" * len(NAMESPACE))),
        "no Ed25519 key": armoured(blob.replace(b"ssh-ed25519", b"ssh-ed25518", 1)),
    }
    for fault, text in cases.items():
        with pytest.raises(Invalid, match=fault):
            verify(b"m", text)


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("# ssh-ed25519 AAAA\nno key\n")
    (tmp_path / "cut").write_text("ssh-ed25519 AAAA x")
    with pytest.raises(Invalid, match="no private key"):
        load_key(tmp_path / "text")
    with pytest.raises(Invalid, match="no Ed25519 key; make one"):
        load_key(_key(tmp_path, "other", "ecdsa"))
    with pytest.raises(Invalid, match="has no Ed25519 key"):
        load_signers(tmp_path / "text")
    with pytest.raises(Invalid, match="cut off"):
        load_signers(tmp_path / "cut")
    with pytest.raises(Invalid, match="cannot be read"):
        load_signers(tmp_path / "absent")
