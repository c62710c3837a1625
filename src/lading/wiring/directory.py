"""The data directory of `lading up`: its files, secrets and certificate.

All data is below one directory (0700), readable by its owner only, independent of the umask. A
directory with access for others is closed at the start; a directory of another user is refused:

    secrets.json   tokens and keys (0600), made once
    env            the address and token for clients, to be sourced (0600)
    config.yml     optional configuration
    tls.crt tls.key    the certificate made at first start
    db.sqlite      the records
    blocks/        the block store
    api.sock       the local way to the server (0600)
    api.lend       socket that passes files of blocks (0600)
    run/           one directory for each container in progress
    cache/         materialised inputs and unpacked images; may be deleted while nothing runs
    live/          the growing logs of running containers
    page/          logins of the page
    lock           lock of the `lading up` that serves this directory
    up.json        the process that holds the lock
"""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from lading.client.caches.disk_space import spread_directories
from lading.client.fd_receiving import lent_beside
from lading.config.site import Config, load
from lading.core import ids
from lading.core.errors import Conflict, Invalid
from lading.net.certificates import DECADE, make_certificate

# 50 characters of 36 letters and digits are 258 bits, as in the tokens of Arvados.
_SECRET_LENGTH = 50
# Permission bits of group and others.
_OTHERS = 0o077
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Secrets made at first start."""

    cluster_id: str
    system_root_token: str
    management_token: str
    blob_signing_key: str
    admin_uuid: str
    admin_token_uuid: str
    admin_token_secret: str
    dispatch_token_uuid: str
    dispatch_token_secret: str

    @property
    def admin_token(self) -> str:
        """The token of clients, in v2 form."""
        return f"v2/{self.admin_token_uuid}/{self.admin_token_secret}"

    @property
    def dispatch_token(self) -> str:
        """The token of the dispatcher, in v2 form."""
        return f"v2/{self.dispatch_token_uuid}/{self.dispatch_token_secret}"


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Paths below a data directory."""

    root: Path
    another_socket: Path | None = None
    """Socket of a further server of the directory, or None for the first one."""

    @property
    def socket(self) -> Path:
        """The Unix socket of the server."""
        return self.another_socket or self.root / "api.sock"

    @property
    def lender(self) -> Path:
        """The Unix socket on which the server passes files of blocks."""
        return lent_beside(self.socket)

    @property
    def database(self) -> Path:
        """The SQLite database."""
        return self.root / "db.sqlite"

    @property
    def blocks(self) -> Path:
        """The directory volume."""
        return self.root / "blocks"

    @property
    def run(self) -> Path:
        """Run directories of containers."""
        return self.root / "run"

    @property
    def cache(self) -> Path:
        """Materialised inputs and images."""
        return self.root / "cache"

    @property
    def live(self) -> Path:
        """Logs of running containers."""
        return self.root / "live"

    @property
    def page(self) -> Path:
        """Logins of the page."""
        return self.root / "page"

    @property
    def certificate(self) -> Path:
        """The TLS certificate, PEM."""
        return self.root / "tls.crt"

    @property
    def key(self) -> Path:
        """The TLS key, PEM."""
        return self.root / "tls.key"

    @property
    def env(self) -> Path:
        """The file that clients source."""
        return self.root / "env"

    def prepare(self, *, say: Callable[[str], None] = lambda _: None) -> None:
        """Create missing directories and remove access for others; `say` gets a message about
        removed access.

        Raises Invalid on failure, or when the directory belongs to another user.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if closed := _close_to_others(self.root):
                say(
                    f"{self.root}: was open to other users ({closed}); "
                    "only its owner can read it now"
                )
            for path in (self.blocks, self.run, self.cache, self.live):
                path.mkdir(mode=0o700, exist_ok=True)
            # ext4 does not reuse an inode within a minute; neighbouring directories make every new
            # file search past the removed ones (docs/performance).
            for path in (self.run, self.live):
                spread_directories(path)
        except OSError as error:
            raise Invalid(
                f"{self.root}: cannot keep data there: {error.strerror}; choose another --data"
            ) from error

    def claim(self) -> int:
        """Lock the directory for this process, as long as the returned descriptor is open.

        Raises Conflict when another `lading up` serves it.
        """
        # The lock belongs to the open descriptor, so a crash of the process releases it.
        descriptor = os.open(self.root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise Conflict(
                f"{self.root}: another 'lading up' serves this directory;"
                f" 'lading down --data {self.root}' stops it"
            ) from error
        return descriptor

    def check_no_containers(self) -> None:
        """Raise Conflict when a container of this directory runs."""
        from lading.supervisor.journal import is_held

        for path in self.run.iterdir() if self.run.is_dir() else ():
            if is_held(path):
                raise Conflict(
                    f"{path}: a container still runs there; start 'lading up', end it by"
                    " 'lading request cancel', and stop it"
                )

    def secrets(self, *, entropy: bytes = b"") -> Secrets:
        """The secrets of this directory; made from `entropy` (at least 400 bytes) at first start.

        Raises Invalid when the file cannot be parsed.
        """
        path = self.root / "secrets.json"
        if path.exists():
            try:
                return msgspec.json.decode(path.read_bytes(), type=Secrets)
            except (msgspec.DecodeError, OSError) as error:
                raise Invalid(
                    f"{path}: cannot be read ({error}); restore it from a backup"
                ) from error
        made = make_secrets(entropy)
        # Written before anything uses the secrets, so two starts never have different ones.
        write_private(path, msgspec.json.format(msgspec.json.encode(made)))
        return made

    def config(self, secrets: Secrets, *, address: str) -> Config:
        """The configuration: defaults, then `config.yml`, then the options of this start."""
        path = self.root / "config.yml"
        return load(
            path if path.exists() else None,
            {
                "ClusterID": secrets.cluster_id,
                # These values overrule config.yml.
                "SystemRootToken": secrets.system_root_token,
                "ManagementToken": secrets.management_token,
                "ExternalURL": f"https://{address}/",
                "Collections": {"BlobSigningKey": secrets.blob_signing_key},
            },
        )

    def write_env(self, secrets: Secrets, *, address: str) -> None:
        """Write the file that clients source."""
        lines = (
            f"export ARVADOS_API_HOST={address}",
            # Clients must not verify it: the certificate is self-signed.
            f"export ARVADOS_API_TOKEN={secrets.admin_token}",
            "export ARVADOS_API_HOST_INSECURE=1",
            f"export LADING_DATA={shlex.quote(str(self.root.absolute()))}",
        )
        write_private(self.env, "\n".join((*lines, "")).encode())

    def served_address(self) -> str:
        """Last address of the server of this directory; empty before the first start."""
        try:
            lines = self.env.read_text().splitlines()
        except OSError:
            return ""
        mark = "export ARVADOS_API_HOST="
        return next((line.removeprefix(mark) for line in lines if line.startswith(mark)), "")


def _close_to_others(root: Path) -> str:
    """Remove access for others from a data directory and its files; return what was open, or "".

    Files of containers and images below `run` and `cache` keep their modes, inside closed
    directories. Raises Invalid when the directory belongs to another user.
    """
    root_facts = root.stat()
    if root_facts.st_uid != os.geteuid():
        raise Invalid(
            f"{root}: belongs to user {root_facts.st_uid}, and holds secrets; start this as that "
            "user, or choose another --data"
        )
    mode = stat.S_IMODE(root_facts.st_mode)
    wide = f"mode {mode:o}" if mode & _OTHERS else ""
    if wide:
        root.chmod(mode & ~_OTHERS)
    inside = [
        entry
        # Not deeper: `blocks`, `run` and `cache` are directories of mode 0700 already, and may hold
        # millions of files.
        for folder in (root, root / "log", root / "live")
        if folder.is_dir()
        for entry in os.scandir(folder)
    ]
    for entry in inside:
        # A file may vanish between the listing and this call.
        with suppress(FileNotFoundError):
            facts = entry.stat(follow_symlinks=False)
            if _is_open(entry.name, facts):
                wide = wide or f"{entry.name}: mode {stat.S_IMODE(facts.st_mode):o}"
                Path(entry.path).chmod(stat.S_IMODE(facts.st_mode) & ~_OTHERS)
    return wide


def _is_open(name: str, facts: os.stat_result) -> bool:
    """Whether others have access to an entry of the data directory that should be closed."""
    # Sockets and symbolic links are left alone: a chmod of a link would change its target.
    is_kept = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
    # config.yml is the operator's own file: its mode is left as it is.
    is_ours = facts.st_uid == os.geteuid() and name != "config.yml"
    return is_kept and is_ours and bool(facts.st_mode & _OTHERS)


def make_secrets(entropy: bytes) -> Secrets:
    """Fresh secrets from at least 400 random bytes. Raises ValueError when there are fewer."""
    if len(entropy) < 400:
        raise ValueError("secrets need 400 random bytes")
    # One part of 40 bytes for each secret: 40 bytes are more than the 258 bits of a secret hold.
    parts = [entropy[at : at + 40] for at in range(0, 400, 40)]
    cluster = ids.encode(parts[0], 5)
    secret = [ids.encode(chunk, _SECRET_LENGTH) for chunk in parts]
    return Secrets(
        cluster_id=cluster,
        system_root_token=secret[1],
        management_token=secret[2],
        blob_signing_key=secret[3],
        admin_uuid=ids.make_uuid(cluster, ids.Infix.USER, parts[4]),
        admin_token_uuid=ids.make_uuid(cluster, ids.Infix.TOKEN, parts[5]),
        admin_token_secret=secret[6],
        dispatch_token_uuid=ids.make_uuid(cluster, ids.Infix.TOKEN, parts[7]),
        dispatch_token_secret=secret[8],
    )


def write_private(path: Path, data: bytes) -> None:
    """Write `path` (0600) atomically and durably."""
    # Written beside the file, synced and renamed: a reader sees the old or the new content, never a
    # part.
    aside = path.with_name(f".{path.name}.new")
    descriptor = os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
    # Without a sync of the directory a power cut may undo the rename.
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def ensure_certificate(certificate: Path, key: Path, *, host: str, now: datetime) -> None:
    """Make the certificate for `host`, localhost and the loopback addresses unless it exists."""
    if certificate.exists() and key.exists():
        return
    shown, private = make_certificate(
        f"Lading on {host}", now=now, life=DECADE, hosts=(*_LOOPBACK, host)
    )
    write_private(key, private.encode())
    write_private(certificate, shown.encode())
