"""The way to the API server of a cluster: from inside it, or by a kubeconfig.

- Inside, the service account of the dispatcher's Pod is used: its token file is read again, as the
  kubelet replaces it every hour.
- A kubeconfig may have tokens, token files and client certificates. Programs that make credentials
  (`exec`) are not run: a dispatcher works with a service account of its own.

Source: docs/spec/kubernetes.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lading.core.errors import Invalid, Unavailable

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# In every cluster the certificate of the API server has this name.
_INSIDE = "https://kubernetes.default.svc"
# Seconds until a token file is read again.
_TOKEN_AGE = 60.0


class TokenFile:
    """A bearer token in a file that others replace."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._due = float("-inf")

    def __call__(self) -> str:
        """The token; read again each minute. Raises Unavailable without a first one."""
        if self._clock() >= self._due:
            try:
                self._token = self._path.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise Unavailable(
                        f"{self._path}: no token can be read: {error.strerror}"
                    ) from error
            self._due = self._clock() + _TOKEN_AGE
        return self._token


def _no_token() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The way to an API server. `token` gives the bearer token of a request, "" for none."""

    url: str
    namespace: str
    tls: ssl.SSLContext
    token: Callable[[], str] = field(default=_no_token, repr=False)


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    # Written in another style than the other fields of the format.
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    contexts: list[_NamedContext] = []
    users: list[_NamedUser] = []


def inside(namespace: str, *, account: Path = _ACCOUNT) -> ClusterAccess:
    """The access of the Pod that this process runs in; `namespace` "" is that of the Pod. Raises
    Invalid.
    """
    try:
        chosen = namespace or (account / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except OSError as error:
        raise Invalid(
            f"Containers.Kubernetes.Kubeconfig is empty, and this is no Pod with a service account"
            f" ({account}: {error.strerror}); name a kubeconfig"
        ) from error
    return ClusterAccess(url=_INSIDE, namespace=chosen, tls=tls, token=TokenFile(account / "token"))


def from_kubeconfig(path: Path, *, context: str = "", namespace: str = "") -> ClusterAccess:
    """The access of a context of a kubeconfig; "" is its current one. Raises Invalid naming the
    fault, without its secrets.
    """
    config = _read(path)
    context_name = context or config.current_context
    contexts = {entry.name: entry.context for entry in config.contexts}
    if context_name not in contexts:
        raise Invalid(
            f"{path}: there is no context {context_name!r};"
            f" there are {', '.join(contexts) or 'none'}"
        )
    chosen = contexts[context_name]
    clusters = {entry.name: entry.cluster for entry in config.clusters}
    users = {entry.name: entry.user for entry in config.users}
    if chosen.cluster not in clusters:
        raise Invalid(f"{path}: context {context_name}: there is no cluster {chosen.cluster!r}")
    cluster, user = clusters[chosen.cluster], users.get(chosen.user, _User())
    if not cluster.server.startswith("https://"):
        raise Invalid(
            f"{path}: cluster {chosen.cluster}: server {cluster.server!r} is not https://HOST:PORT"
        )
    if user.exec or user.auth_provider or user.username:
        raise Invalid(
            f"{path}: user {chosen.user}: only tokens and client certificates are used;"
            " make a service account for the dispatcher, with a token (docs/kubernetes.md)"
        )
    return ClusterAccess(
        url=cluster.server.rstrip("/"),
        namespace=namespace or chosen.namespace or "default",
        tls=_tls(path, cluster, user),
        token=_token(path, user),
    )


def _read(path: Path) -> _Kubeconfig:
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()), _Kubeconfig)
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not a kubeconfig: it is no text") from error
    except yaml.YAMLError as error:
        # The error of the parser quotes the file, which has secrets.
        raise Invalid(f"{path}: not a kubeconfig: it is no YAML") from error
    except msgspec.ValidationError as error:
        raise Invalid(f"{path}: not a kubeconfig: {error}") from error


def _token(path: Path, user: _User) -> Callable[[], str]:
    if user.token_file:
        return TokenFile(path.parent / user.token_file)
    return (lambda: user.token) if user.token else _no_token


def _tls(path: Path, cluster: _Cluster, user: _User) -> ssl.SSLContext:
    authority = _data(path, cluster.certificate_authority_data, cluster.certificate_authority)
    try:
        if cluster.insecure_skip_tls_verify:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context = ssl.create_default_context(cadata=authority.decode() or None)
        certificate = _data(path, user.client_certificate_data, user.client_certificate)
        if certificate:
            key = _data(path, user.client_key_data, user.client_key)
            # ssl reads certificates of clients from files only; this one is private, and removed.
            with tempfile.NamedTemporaryFile(prefix="lading-") as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
    except (ssl.SSLError, ValueError) as error:
        raise Invalid(
            f"{path}: a certificate or key is not readable as PEM;"
            " check certificate-authority and client-certificate"
        ) from error
    return context


def _data(path: Path, encoded: str, file: str) -> bytes:
    """The bytes of a field, in the file itself or in another file beside it."""
    try:
        if encoded:
            return base64.b64decode(encoded, validate=True)
        return (path.parent / file).read_bytes() if file else b""
    except binascii.Error as error:
        raise Invalid(f"{path}: a field with data is not base64") from error
    except OSError as error:
        raise Invalid(f"{path}: {file}: cannot be read: {error.strerror}") from error
