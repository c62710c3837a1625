"""What a cluster trusts."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from lading.hpc.plan import make_identity, make_ssh_keys

NOW = datetime.now(UTC)


def test_identities_never_repeat_and_keep_their_secrets() -> None:
    one, two = make_identity("container_0", now=NOW), make_identity("container_0", now=NOW)
    assert len({one.key, two.key, one.authorization, two.authorization}) == 4
    assert one.authorization not in repr(one)
    ssl.create_default_context(cadata=one.certificate)


def test_openssh_reads_the_keys(tmp_path: Path) -> None:
    keys = make_ssh_keys()
    private = tmp_path / "key"
    private.touch(mode=0o600)
    private.write_text(keys.private)
    public = subprocess.run(
        ["ssh-keygen", "-y", "-f", private], capture_output=True, check=True, text=True
    ).stdout
    assert public.split()[:2] == keys.public.split()[:2]
    assert "PRIVATE" not in repr(keys)
