"""What an HPC container is told."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid
from lading.core.hpc import daemon_configuration as configuration
from lading.core.hpc.addresses import SshdAddress
from lading.core.hpc.daemon_configuration import DaemonSettings, apply
from lading.core.hpc.daemon_states import ChildPolicy

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----"


def test_arrays_and_objects_say_the_same() -> None:
    array = {"daemonParameters": [{"key": "a", "value": 1}, {"key": "b", "value": None}]}
    assert configuration.pairs(array, "daemonParameters") == {"a": 1, "b": None}
    assert configuration.pairs({"daemonParameters": {"a": 1, "b": None}}, "daemonParameters") == {
        "a": 1,
        "b": None,
    }
    assert configuration.pairs({}, "daemonParameters") == {}


@pytest.mark.parametrize(
    "body", [[], None, {"p": 3}, {"p": [1]}, {"p": [{"key": 1, "value": 2}]}, {"p": [{"key": "a"}]}]
)
def test_other_bodies_are_refused(body: object) -> None:
    with pytest.raises(Invalid):
        configuration.pairs(body, "p")


def test_the_daemon_s_parameters_may_be_the_body_itself() -> None:
    assert configuration.daemon_parameters({"daemonParameters": {"worldRank": 1}}) == {
        "worldRank": 1
    }
    assert configuration.daemon_parameters({"worldRank": 1}) == {"worldRank": 1}
    wrongs: list[object] = [[], None, {"daemonParameters": 3}]
    for wrong in wrongs:
        with pytest.raises(Invalid):
            configuration.daemon_parameters(wrong)


def test_whose_parameters_a_body_has_is_clear() -> None:
    assert configuration.is_for_daemon({"daemonParameters": []})
    assert not configuration.is_for_daemon({"codeParameters": []})
    assert not configuration.is_for_daemon([])
    with pytest.raises(Invalid, match="one after the other"):
        configuration.is_for_daemon({"daemonParameters": [], "codeParameters": []})


def test_parameters_keep_their_types() -> None:
    body = {"codeParameters": {"steps": 10, "name": "x y", "fast": True, "list": [1, 2]}}
    found = configuration.code_parameters(body)
    assert found == body["codeParameters"]
    assert [configuration.parameter_text(value) for value in found.values()] == [
        "10",
        "x y",
        "true",
        "[1,2]",
    ]
    assert configuration.parameter_text("\ud800") == "?"


@pytest.mark.parametrize("pair", [("1a", 1), ("a-b", 1), ("", 1), ("a", "x\ny"), ("a", "\0")])
def test_what_no_shell_takes_is_refused(pair: tuple[str, Any]) -> None:
    with pytest.raises(Invalid):
        configuration.code_parameters({"codeParameters": dict([pair])})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", "x" * 256])
def test_paths_are_no_file_names(name: str) -> None:
    with pytest.raises(Invalid):
        configuration.file_name(name)
    assert configuration.file_name("a.txt") == "a.txt"


def test_everything_is_understood_under_all_its_names() -> None:
    given = {
        "WORLD_RANK": "1", "worldSize": 2, "clusterIPs": ["10.0.0.1", "fd00::1"],
        "SSH_PRIVATE_KEY": KEY, "sshPublicKey": "ssh-ed25519 AAAA me",
        "resultsDirectory": "/mnt/out/", "s3PresignedUrl": "https://s/k?X=1", "codeName": "ring",
        "codeArguments": '["-n", "3"]', "childFailurePolicy": "direct", "slots": 2,
        "killGrace": "30",
        "sharedFileSystem": True, "nobody": 1,
        "extraPorts": [{
            "Name": "web", "InternalPort": 80, "ExternalContainerPorts": {"0": "10.0.0.9:8080"},
        }],
    }  # fmt: skip
    applied = apply(DaemonSettings(), given)
    assert applied.settings == DaemonSettings(
        world_rank=1, world_size=2,
        addresses={0: SshdAddress("10.0.0.1"), 1: SshdAddress("fd00::1")},
        private_key=KEY + "\n", public_key="ssh-ed25519 AAAA me\n", results_directory="/mnt/out",
        results_url="https://s/k?X=1", code_name="ring", code_arguments=("-n", "3"),
        child_policy=ChildPolicy.DIRECT, slots=2, kill_grace=30, watched=("/hpcaas/shared",),
        extra_ports={"web": {0: "10.0.0.9:8080"}},
    )  # fmt: skip
    assert applied.ignored == ("nobody",)
    assert set(applied.accepted) == set(configuration.KEYS)


def test_a_grace_is_bounded() -> None:
    assert apply(DaemonSettings(), {"killGrace": 0}).settings.kill_grace == 0
    with pytest.raises(Invalid, match="3600 is the most"):
        apply(DaemonSettings(), {"killGrace": 3601})


def test_the_rest_of_the_settings_stays() -> None:
    before = apply(
        DaemonSettings(),
        {"worldRank": 0, "sshPublicKey": "ssh-rsa AAAA\n", "sshPrivateKey": KEY + "\n"},
    ).settings
    after = apply(
        before, {"sshAddresses": {"0": "a:22"}, "sharedFileSystem": "false", "codeName": "/opt/run"}
    ).settings
    assert (after.world_rank, after.addresses, after.watched) == (0, {0: SshdAddress("a")}, ())
    assert after.code_name == "/opt/run"
    assert apply(after, {"sharedFileSystem": ["/mnt"]}).settings.watched == ("/mnt",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worldRank", -1), ("worldRank", True), ("worldRank", "x"), ("worldSize", 0),
        ("sshAddresses", 3), ("sshAddresses", {"x": "a"}), ("sshAddresses", "{"),
        ("sshAddresses", [1]), ("sshPrivateKey", "secret"), ("sshPublicKey", "two\nlines"),
        ("resultsDirectory", "here"), ("resultsDirectory", "/a/../b"), ("resultsUrl", "ftp://x"),
        ("resultsUrl", "http://plain/x"), ("codeName", ".."), ("codeArguments", {}),
        ("codeArguments", ["\ud800"]), ("codeArguments", ["é" * 65_536]),
        ("childFailurePolicy", "some"), ("sharedFileSystem", 3), ("extraPorts", {}),
        ("extraPorts", [1]), ("extraPorts", [{"Name": "a b"}]), ("codeName", 3),
    ],
)  # fmt: skip
def test_wrong_values_are_refused(name: str, value: Any) -> None:
    with pytest.raises(Invalid):
        apply(DaemonSettings(), {name: value})


def test_the_credential_in_an_address_is_in_no_error() -> None:
    with pytest.raises(Invalid) as caught:
        apply(DaemonSettings(), {"resultsUrl": "gopher://s/k?X-Amz-Signature=topsecret"})
    assert "topsecret" not in caught.value.message


def test_results_may_go_unencrypted_where_that_is_allowed() -> None:
    assert (
        apply(DaemonSettings(), {"resultsUrl": "http://s/k"}, allow_http=True).settings.results_url
        == "http://s/k"
    )
    assert apply(DaemonSettings(), {"resultsUrl": ""}).settings.results_url == ""


def test_after_the_start_only_where_results_go_may_change() -> None:
    assert (
        apply(DaemonSettings(), {"resultsDirectory": "/"}, started=True).settings.results_directory
        == "/"
    )
    with pytest.raises(Invalid, match="started"):
        apply(DaemonSettings(), {"worldRank": 1}, started=True)


def test_what_is_missing_before_a_start_is_named() -> None:
    assert configuration.missing(DaemonSettings(), ()) == configuration.REQUIRED
    one, two = DaemonSettings(world_size=1), DaemonSettings(world_size=2)
    assert configuration.missing(one, configuration.REQUIRED) == ()
    assert configuration.missing(two, configuration.REQUIRED) == ("sshAddresses",)
    assert configuration.missing(two, ()) == configuration.REQUIRED


def test_parameters_fit_into_an_environment() -> None:
    configuration.check_parameters({"A": "x" * (131_071 - len("PARAM_A="))})
    assert configuration.fits_a_variable("A", "x" * 131_069)
    assert not configuration.fits_a_variable("A", "x" * 131_070)
    with pytest.raises(
        Invalid,
        match="parameter A has 131064 bytes in its value, .* holds 131063; send it as a file",
    ):
        configuration.check_parameters({"B": 1, "A": "é" * 65_532})
    with pytest.raises(Invalid, match="1048576 is the most; send large ones as files"):
        configuration.check_parameters({f"P{number}": "x" * 90_000 for number in range(6)})


def test_ranks_fit_the_size() -> None:
    two = {"sshAddresses": {"1": "a", "2": "b"}}
    assert apply(DaemonSettings(), {"worldRank": 2, "worldSize": 2, **two}).warnings == ()
    assert apply(DaemonSettings(), {"worldRank": 2, "worldSize": 2}).warnings != ()
    assert apply(DaemonSettings(), {"worldRank": 1, "worldSize": 2}).warnings == ()
    for wrong in (
        {"worldRank": 3, "worldSize": 2},
        {"worldRank": 2, "worldSize": 2, "clusterIPs": ["a", "b"]},
    ):
        with pytest.raises(Invalid, match="does not fit"):
            apply(DaemonSettings(), wrong)
