"""What `lading shell` asks, and the ssh that it starts; sessions are in
tests/system/test_shell.py.
"""

from __future__ import annotations

import pytest

from lading.cli.running import shell
from lading.client.servers.environment import Server
from lading.core.errors import Invalid

UUID = "zzzzz-xvhdp-000000000000001"


def test_the_arguments_of_ssh() -> None:
    made = shell.ssh_arguments(
        "way", "me", UUID, command=("sh", "-c", "a b"), forwards=("1:localhost:2",),
        options=("Compression=yes",), terminal=True, only_forward=True,
    )  # fmt: skip
    assert made[-4:] == ["me", "--", UUID, "sh -c 'a b'"]
    assert [made[at + 1] for at, one in enumerate(made) if one == "-L"] == ["1:localhost:2"]
    assert {"ProxyCommand=way", "StrictHostKeyChecking=no", "Compression=yes", "-N", "-t"} <= set(
        made
    )


def test_one_argument_is_a_line_for_a_shell() -> None:
    assert shell.ssh_arguments("way", "", UUID, command=("echo a | cat",))[-3:] == [
        "--",
        UUID,
        "echo a | cat",
    ]
    assert shell.ssh_arguments("way", "", UUID)[-3:] == ["root", "--", UUID]


def test_targets() -> None:
    assert shell.parse_target("last") == ("", "last")
    assert shell.parse_target(f"me@{UUID}") == ("me", UUID)
    for wrong in ("", "-oProxyCommand=x", "a b", "@x", "me@you@x"):
        with pytest.raises(Invalid):
            shell.parse_target(wrong)


def test_the_token_is_in_the_environment_and_not_on_the_command_line() -> None:
    server = Server(address="h:1", token="v2/zzzzz-gj3su-000000000000000/secret", insecure=True)
    environment = shell.ssh_environment(server)
    assert (environment["ARVADOS_API_TOKEN"], environment["ARVADOS_API_HOST_INSECURE"]) == (
        server.token,
        "1",
    )
    proxy = shell.proxy_command(UUID, "me", "ctrl-p,ctrl-q")
    assert "secret" not in proxy
    assert proxy.endswith(f"shell --connect --detach-keys ctrl-p,ctrl-q me@{UUID}")
