"""How both sides of a session prove themselves, and what a client's wishes become."""

from __future__ import annotations

import pytest

from lading.core.containers import sessions
from lading.core.containers.container import ContainerState
from lading.core.containers.sessions import Target
from lading.core.errors import Forbidden, Gone, Invalid, Malformed, Unavailable

CONTAINER = "zzzzz-dz642-000000000000001"


def test_only_a_running_container_can_be_entered() -> None:
    sessions.check_state(CONTAINER, ContainerState.RUNNING)
    for state in (ContainerState.QUEUED, ContainerState.LOCKED):
        with pytest.raises(Unavailable, match="not running yet"):
            sessions.check_state(CONTAINER, state)
    for state in (ContainerState.COMPLETE, ContainerState.CANCELLED):
        with pytest.raises(Gone, match="has ended"):
            sessions.check_state(CONTAINER, state)


def test_proofs_differ_by_container_certificate_and_secret() -> None:
    key = sessions.container_key("root", CONTAINER)
    proof = sessions.request_proof(key, b"certificate")
    others = {
        sessions.request_proof(sessions.container_key("other", CONTAINER), b"certificate"),
        sessions.request_proof(
            sessions.container_key("root", CONTAINER[:-1] + "2"), b"certificate"
        ),
        sessions.request_proof(key, b"another"),
        sessions.response_proof(key, proof),
    }
    assert len(others | {proof}) == 5
    assert sessions.is_proof(proof, sessions.request_proof(key, b"certificate"))
    assert not any(sessions.is_proof(one, proof) for one in (*others, "", "é"))


def test_the_keys_are_those_of_the_contract() -> None:
    import hashlib
    import hmac

    key = hmac.new(b"root", CONTAINER.encode(), hashlib.sha256).hexdigest()
    assert sessions.container_key("root", CONTAINER) == key
    assert (
        sessions.request_proof(key, b"x")
        == hmac.new(key.encode(), b"x", hashlib.sha256).hexdigest()
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("true", ("true",)), ("echo 'a b' c", ("echo", "a b", "c")),
        ("echo $HOME", ("/bin/sh", "-c", "echo $HOME")), ("a 'b", ("/bin/sh", "-c", "a 'b")),
        ("a && b", ("/bin/sh", "-c", "a && b")),
    ],
)  # fmt: skip
def test_a_shell_is_used_where_it_is_needed(command: str, expected: tuple[str, ...]) -> None:
    assert sessions.shell_command(command) == expected


def test_no_command_is_a_login_shell_and_sftp_a_subsystem() -> None:
    assert "bash -login" in sessions.shell_command(None)[2]
    assert sessions.shell_command(" ") == sessions.shell_command(None)
    assert "sftp-server" in sessions.shell_command(None, "sftp")[2]
    with pytest.raises(Invalid, match="only sftp"):
        sessions.shell_command(None, "x11")


def test_variables_of_a_client_come_along() -> None:
    given = {"LC_ALL": "C", "LANG": "de", "LD_PRELOAD": "x", "MY_OWN": "y", "a b": "z", "N": "\0"}
    kept = (("LANG", "de"), ("LC_ALL", "C"), ("MY_OWN", "y"))
    assert sessions.session_environment(given, None) == kept
    assert sessions.refused_variables(given) == ["LD_PRELOAD", "N", "a b"]
    told = sessions.variables_refusal(["LD_PRELOAD", "a\nb"])
    assert told.startswith("lading: not set in this session: LD_PRELOAD, 'a\\nb'; it takes 64")
    assert "and 2 more" in sessions.variables_refusal(["a"] * 7)


def test_the_terminal_is_that_of_the_session() -> None:
    terminal = (("TERM", "vt100"), ("USE_TTY", "1"))
    assert sessions.session_environment({}, "vt100") == terminal
    assert sessions.session_environment({"TERM": "dumb"}, "vt100") == terminal
    assert sessions.session_environment({"TERM": "dumb"}, None) == (("TERM", "dumb"),)


def test_variables_are_few_and_small() -> None:
    many = {f"V{number:03}": "x" for number in range(100)}
    assert len(sessions.session_environment(many, None)) == 64
    assert len(sessions.refused_variables(many)) == 36
    large = {"A": "x" * 20_000, "B": "x" * 20_000, "C": "c"}
    assert sessions.refused_variables(large) == ["B"]


def test_why_nothing_listens() -> None:
    assert "-R localhost:80: is refused" in sessions.listening_refusal("localhost", 80)
    assert "-R /run/x: is refused" in sessions.listening_refusal("/run/x", -1)


def test_targets() -> None:
    assert sessions.parse_target(f"{CONTAINER}-80") == Target(CONTAINER, 80)
    request = sessions.parse_target("zzzzz-xvhdp-000000000000001-65535")
    assert sessions.is_request(request)
    assert not sessions.is_request(Target(CONTAINER, 1))
    for text in (
        "",
        CONTAINER,
        f"{CONTAINER}-0",
        f"{CONTAINER}-65536",
        f"{CONTAINER}-1x",
        "zzzzz-tpzed-000000000000001-1",
    ):
        with pytest.raises(Malformed):
            sessions.parse_target(text)


@pytest.mark.parametrize("text", ["0", "65536", "", "x", "٣", "-1", "1000000"])
def test_no_port(text: str) -> None:
    with pytest.raises(Malformed, match="from 1 to 65535"):
        sessions.check_port(text)


def test_gateway_addresses() -> None:
    assert sessions.parse_gateway("127.0.0.1:80") == ("127.0.0.1", 80)
    assert sessions.parse_gateway("[::1]:80") == ("::1", 80)
    for text in ("", "host", "host:0", ":1", "host:x", "host:70000"):
        with pytest.raises(Unavailable, match="no gateway yet"):
            sessions.parse_gateway(text)
    assert sessions.tunnel_url("127.0.0.1:80") is None
    assert sessions.tunnel_url("tunnel") == ""
    assert sessions.tunnel_url("tunnel https://a:1/") == "https://a:1/"


def test_offered_gateway_addresses() -> None:
    assert sessions.offered(sessions.offer("192.0.2.1:4000")) == "192.0.2.1:4000"
    for address in ("192.0.2.1:4000", "tunnel", "tunnel https://a:1/", "", None, 7):
        assert sessions.offered(address) == ""


@pytest.mark.parametrize(
    ("address", "places", "may"),
    [
        ("192.0.2.1:4000", sessions.Places(source="192.0.2.1"), True),
        ("[2001:db8::1]:4000", sessions.Places(source="2001:db8::1"), True),
        ("192.0.2.2:4000", sessions.Places(source="192.0.2.1"), False),
        ("192.0.2.2:4000", sessions.Places(source="192.0.2.1", hosts=("192.0.2.0/24",)), True),
        # The loopback of the server is not that of the machine, unless the site says so.
        ("127.0.0.1:4000", sessions.Places(source="127.0.0.1"), False),
        ("127.0.0.1:4000", sessions.Places(source="", hosts=("127.0.0.1",)), True),
        # Services of the machine listen below.
        ("192.0.2.1:80", sessions.Places(source="192.0.2.1"), False),
        ("nonsense", sessions.Places(source="192.0.2.1"), False),
        ("192.0.2.1:4000", sessions.NOWHERE, False),
    ],
)
def test_addresses_that_a_server_tries(address: str, places: sessions.Places, may: bool) -> None:
    assert sessions.may_be_tried(address, places) is may


def test_a_refusal_is_one_line() -> None:
    assert sessions.refusal(Forbidden("a\nb")) == "lading: a b"


@pytest.mark.parametrize(
    ("names", "typed", "passed", "left"),
    [
        ("", [b"\x10\x11"], b"\x10\x11", False),
        ("ctrl-p,ctrl-q", [b"ab\x10\x11cd"], b"ab", True),
        ("ctrl-p,ctrl-q", [b"a\x10", b"\x11b"], b"a", True),
        ("ctrl-p,ctrl-q", [b"a\x10", b"b\x11"], b"a\x10b\x11", False),
        ("ctrl-p,ctrl-q", [b"\x10\x10\x11"], b"\x10", True),
        ("ctrl-p,ctrl-q", [b"a\x10"], b"a", False),
        ("ctrl-],ctrl-]", [b"\x1d", b"x\x1d\x1d"], b"\x1dx", True),
        ("q", [b"no", b"q"], b"no", True),
        ("ctrl-@,ctrl-_", [b"\x00\x1f"], b"", True),
    ],
)
def test_detach_keys(names: str, typed: list[bytes], passed: bytes, left: bool) -> None:
    keys = sessions.DetachKeys(names)
    said = [keys.feed(one) for one in typed]
    assert b"".join(data for data, _ in said) == passed
    assert any(found for _, found in said) is left


@pytest.mark.parametrize("names", ["ctrl-", "meta-x", "ctrl-p,", "Q", "ctrl-P"])
def test_no_detach_keys(names: str) -> None:
    with pytest.raises(Invalid, match="ctrl-p,ctrl-q"):
        sessions.DetachKeys(names)


def test_the_key_of_a_gateway_follows_from_the_secret_of_its_container() -> None:
    one, other = (
        sessions.identity_seed(sessions.container_key("root", uuid)) for uuid in ("a", "b")
    )
    assert len(one) == 64
    assert one != other
    assert one == sessions.identity_seed(sessions.container_key("root", "a"))


@pytest.mark.parametrize(
    ("text", "is_target"),
    [(f"{CONTAINER}-80", True), (f"{CONTAINER.upper()}-80", True), (CONTAINER, False), ("", False)],
)
def test_a_text_that_looks_like_a_target(text: str, is_target: bool) -> None:
    assert sessions.is_target(text) is is_target


def test_a_tunnel_comes_before_the_container_runs() -> None:
    for state in (ContainerState.LOCKED, ContainerState.RUNNING):
        sessions.check_tunnel_state(CONTAINER, state)
    with pytest.raises(Unavailable):
        sessions.check_tunnel_state(CONTAINER, ContainerState.QUEUED)
    with pytest.raises(Gone):
        sessions.check_tunnel_state(CONTAINER, ContainerState.COMPLETE)
