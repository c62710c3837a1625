"""Calls of strangers to the daemon of an HPC container, and names, forms and settings that lead it
to other files, other commands, or no end.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import LadingError
from lading.core.protocols.daemon_http import byte_range, form_parts, media_type, waiting_time
from tests.hpc_daemon import Rig

FILES, SETTINGS = "/v1/code-configuration", "/v1/daemon-configuration"
NAMES = (
    "../x",
    "..",
    ".",
    "",
    "/etc/x",
    "a/../b",
    "a/b",
    "a\\b",
    "\\x",
    "x\0",
    "x\n",
    "x\r",
    "a" * 256,
    "\u00e9" * 128,
    "....//x",
    "%2e%2e%2fx/",
    "./x",
    "x/",
    "//x",
    "~/x",
    "C:\\x",
    "a\0.txt",
)
SETTING_VALUES: tuple[tuple[str, Any], ...] = (
    *(
        ("sshAddresses", {"0": text})
        for text in (
            "h\nProxyCommand touch /planted",
            "h:22\n",
            "-oProxyCommand=x",
            "h h",
            "h#",
            "h\t1",
            "h\0",
            "",
            "h:99999",
            "h:-1",
            "[::1",
            "h;x",
            "$(x)",
            "`x`",
            "h/../x",
            "a" * 2000,
        )
    ),
    *(
        ("sshAddresses", {key: "127.0.0.1:22"})
        for key in ("-1", "x", "0\n", "1e3", "", "99999999999")
    ),
    ("sshAddresses", []),
    ("sshAddresses", {"0": 5}),
    ("worldRank", -1),
    ("worldRank", 1 << 70),
    ("worldRank", "0; x"),
    ("worldSize", 0),
    ("worldSize", 1e300),
    ("worldSize", None),
    ("sshPrivateKey", 5),
    ("sshPrivateKey", "-----BEGIN\0"),
    ("codeName", "../../bin/sh"),
    ("codeName", "/bin/sh"),
    ("codeName", "a\nb"),
    ("codeName", ""),
    ("codeName", "a" * 10_000),
    ("codeName", {"a": 1}),
    ("resultUrl", "file:///etc/passwd"),
    ("resultUrl", "http://\n"),
)
PARAMETERS: tuple[Any, ...] = (
    {"a\nb": "1"},
    {"a=b": "1"},
    {"": "1"},
    {"a\0": "1"},
    {"a": "\0"},
    {"1a": "x"},
    {"a b": "1"},
    {"PATH": "/planted"},
    {"LD_PRELOAD": "/planted"},
    {"a": {"b": 1}},
    {"a": [1] * 10},
    [],
    "x",
    5,
    None,
    {"a;b": "1"},
    {"$(x)": "1"},
    {"a`b`": "1"},
    {"a" * 5000: "1"},
)
FORMS = (
    b"",
    b"--b",
    b"--b--",
    b"--b\r\n",
    b"--b\r\n\r\n",
    b"--b\r\n\r\n--b--",
    b"--b\r\nX: y\r\n\r\nz\r\n--b--",
    b"--b\r\nContent-Disposition: form-data\r\n\r\nz\r\n--b--\r\n",
    b"--bb\r\n\r\nz\r\n--b--\r\n",
    b"--b\nContent-Disposition: form-data; name=a\n\nz\n--b--",
    b"--b\r\n" * 3000,
    b"\r\n--b" * 3000,
    b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nz",
    b"--b\r\n" + b"X: y\r\n" * 5000 + b"\r\nz\r\n--b--",
    b"x" * 70_000,
    b"--b\r\nContent-Disposition: attachment; name=a\r\n\r\nz\r\n--b--\r\n",
    b'--b\r\nContent-Disposition: form-data; name="a\r\n\r\nz\r\n--b--\r\n',
    b"--b\r\nContent-Disposition: form-data; name=a; filename*=utf-8''%2e%2e%2fx"
    b"\r\n\r\nz\r\n--b--\r\n",
    b"--b\r\nContent-Disposition: form-data; filename=../x; name=a\r\n\r\nz\r\n--b--\r\n",
)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    made.up()
    yield made
    made.down()


def _tree(root: Path) -> set[str]:
    """Everything below a root, apart from what the daemon keeps for itself."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if "own" not in path.parts}


@pytest.mark.attack("uploads files with names that lead out of their directory")
def test_names_of_files(rig: Rig, tmp_path: Path) -> None:
    before = _tree(tmp_path)
    for name in NAMES:
        for field in (f'name="{name}"', f'name="a"; filename="{name}"'):
            body = f"--b\r\nContent-Disposition: form-data; {field}\r\n\r\nz\r\n--b--\r\n".encode()
            headers = {
                "Authorization": rig.identity.authorization,
                "Content-Type": "multipart/form-data; boundary=b",
            }
            assert rig.call("POST", FILES, body, headers).status in {200, 400}, name
    added = _tree(tmp_path) - before
    assert all(Path(name).parent.name == "files" for name in added), added
    assert not (tmp_path.parent / "x").exists()
    assert rig.query()


@pytest.mark.attack("calls with credentials that are nearly right")
def test_credentials(rig: Rig) -> None:
    right = rig.identity.authorization
    wrong = (
        "",
        "Bearer",
        "Bearer ",
        f"{right} ",
        f"{right}x",
        right[:-1],
        right[1:],
        right.upper(),
        right.lower() + "x",
        f"Basic {right}",
        f"Bearer Bearer {right}",
        f"bearer\t{right}",
        "null",
        "undefined",
        f'"{right}"',
        f"{right},{right}",
        f"Bearer {right}, x",
        "*",
        "a" * 5000,
    )
    for value in wrong:
        for name in ("Authorization", "WWW-Authenticate", "Proxy-Authorization", "X-Authorization"):
            for method, path in (("GET", "/v1/query"), ("POST", "/v1/command"), ("GET", "/v1/x")):
                if value.strip() == right and value != right:
                    # Blanks around a field's value are no part of it (RFC 9110, section 5.5).
                    continue
                answer = rig.call(method, path, b"", {name: value})
                assert answer.status == 401, (name, value)
                assert right not in str(answer)


@pytest.mark.attack("sets addresses, keys, names and parameters that add lines to files of others")
def test_settings(rig: Rig, tmp_path: Path) -> None:
    for name, value in SETTING_VALUES:
        answer = rig.configure(**{name: value})
        assert answer.status in {200, 400}, (name, value)
    for parameters in PARAMETERS:
        assert rig.post(FILES, {"parameters": parameters}).status in {200, 400}, parameters
        assert rig.post(FILES, {"codeParameters": parameters}).status in {200, 400}, parameters
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name in {"config", "hosts", "hostfile", "authorized_keys"}:
            assert "ProxyCommand" not in path.read_text(errors="replace"), path
    assert rig.query()


@pytest.mark.attack("sends forms that are none, or have no end")
def test_forms(rig: Rig) -> None:
    for body in FORMS:
        for path in (FILES, SETTINGS):
            headers = {
                "Authorization": rig.identity.authorization,
                "Content-Type": "multipart/form-data; boundary=b",
            }
            assert rig.call("POST", path, body, headers).status in {200, 400}, body[:60]
        with suppress(LadingError):
            form_parts(body, "b")
    for boundary in ("", " ", "a" * 71, "b\r\n", "b\0", '"', "b;", "é", "b "):
        with pytest.raises(LadingError):
            form_parts(b"--b\r\n\r\nz\r\n--b--", boundary)
    assert rig.query()


@pytest.mark.attack("sends documents, methods, ranges and waits that no call has")
def test_calls(rig: Rig) -> None:
    right = {"Authorization": rig.identity.authorization}
    documents = (
        b"[" * 5000,
        b"{",
        b"null",
        b"1e999",
        b'{"command":{"a":1}}',
        b"\xff",
        b'{"command":null}',
    )
    for body in documents:
        for path in (FILES, SETTINGS, "/v1/command", "/v1/code-name"):
            for kind in ("application/json", "text/plain", "", "application/json; charset=x"):
                answer = rig.call("POST", path, body, {**right, "Content-Type": kind})
                assert answer.status in {200, 400, 404, 405}, (path, body[:20], answer.status)
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "HEAD"):
        assert rig.call(method, "/v1/query", b"", right).status in {200, 400, 404, 405}
    for text in (
        "bytes=-",
        "bytes=5-1",
        "bytes=a-b",
        "bytes=0-1,2-3",
        "bytes=-99999999999999999999",
    ):
        start, end = byte_range(text, 10) or (0, 0)
        assert 0 <= start <= end <= 10
    for text in (
        "wait=999999",
        "wait=-1",
        "wait=1e9",
        "wait=9999999",
        "WAIT = 5, wait=60",
        "x" * 9999,
    ):
        assert 0.0 <= waiting_time(text) <= 60.0
    for text in (";" * 5000, 'a; b="' + "\\" * 5000, "a;=;=;=", "a; b=c; b=d", '"' * 5000):
        media_type(text)
    assert rig.query()


@pytest.mark.attack("opens connections that send heads slowly, never, or without an end")
def test_slow_heads(rig: Rig) -> None:
    context = ssl.create_default_context(cadata=rig.identity.certificate)
    context.check_hostname = False
    heads = (
        b"",
        b"G",
        b"GET /v1/query HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000,
        b"\0" * 500,
    )
    opened = []
    for number in range(60):
        raw = socket.create_connection((rig.host, rig.port), timeout=10)
        with suppress(OSError):
            connection = context.wrap_socket(raw)
            opened.append(connection)
            connection.sendall(heads[number % len(heads)])
    assert rig.query()
    for connection in opened:
        with closing(connection):
            pass
    assert json.dumps(rig.query())
