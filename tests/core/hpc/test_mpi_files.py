"""The files that the daemon writes."""

from __future__ import annotations

import json
import shlex

from hypothesis import given
from hypothesis import strategies as st

from lading.core.hpc import mpi_files
from lading.core.hpc.addresses import SshdAddress
from lading.core.hpc.daemon_configuration import DaemonSettings

TWO = {1: SshdAddress("fd00::1", 2222), 0: SshdAddress("10.0.0.1")}


def test_ssh_finds_every_container_without_asking() -> None:
    text = mpi_files.ssh_config(TWO, identity="~/.ssh/private_key")
    assert text.startswith(
        "Host *\n  IdentityFile ~/.ssh/private_key\n  StrictHostKeyChecking no\n"
    )
    assert "Host container_0 container-0\n  Hostname 10.0.0.1\n  Port 22\n\n" in text
    assert "Host container_1 container-1\n  Hostname fd00::1\n  Port 2222\n" in text


def test_the_host_file_is_one_that_mpirun_reads() -> None:
    assert mpi_files.host_file(TWO, slots=2) == "container-0 slots=2\ncontainer-1 slots=2\n"


def test_names_of_containers_are_no_hosts() -> None:
    assert (
        mpi_files.hosts({**TWO, 2: SshdAddress("node")})
        == "10.0.0.1 container_0 container-0\nfd00::1 container_1 container-1\n"
    )


def test_the_code_sees_its_parameters_and_its_place() -> None:
    settings = DaemonSettings(
        world_rank=1, world_size=2, addresses=TWO, extra_ports={"web": {0: "a:1"}}
    )
    found = mpi_files.environment(settings, {"steps": 3})
    assert (found["steps"], found["PARAM_steps"], found["WORLD_RANK"], found["WORLD_SIZE"]) == (
        "3",
        "3",
        "1",
        "2",
    )
    assert found["CLUSTER_CONTAINER_NAMES"] == "container-0,container-1"
    assert found["CLUSTER_IPS"] == "10.0.0.1,fd00::1"
    assert found["CLUSTER_SSH_ADDRESSES"] == "0=10.0.0.1:22,1=[fd00::1]:2222"
    assert "DISTRIBUTED_FILE_SYSTEM_ENABLED" not in found
    assert mpi_files.environment(DaemonSettings(watched=("/s",)), {}) == {
        "DISTRIBUTED_FILE_SYSTEM_ENABLED": "true"
    }
    assert found["EXTRA_PORTS_WEB_0"] == "a:1"
    assert mpi_files.environment(DaemonSettings(), {}) == {}


def test_lists_of_a_huge_cluster_are_in_the_files_only() -> None:
    """No program starts with a variable of more than 128 KiB in its environment."""
    settings = DaemonSettings(
        addresses={
            rank: SshdAddress(f"10.77.{rank // 250}.{rank % 250 + 1}") for rank in range(8_000)
        }
    )
    found = mpi_files.environment(settings, {})
    assert max(map(len, found.values())) < 1 << 17
    assert found.keys().isdisjoint({"CLUSTER_SSH_ADDRESSES"})
    assert "OMPI_MCA_orte_default_hostfile" in found
    assert "7999=10.77.31.250:22" in mpi_files.runtime_lines(settings)


@given(
    st.dictionaries(
        st.from_regex("[A-Z_]{1,5}", fullmatch=True),
        st.text(st.characters(exclude_categories=["C"])),
    )
)
def test_a_shell_reads_what_was_exported(variables: dict[str, str]) -> None:
    words = shlex.split(mpi_files.exports(variables))
    assert dict(word.split("=", 1) for word in words if word != "export") == variables


def test_a_block_is_replaced_and_the_rest_stays() -> None:
    once = mpi_files.with_block("mine\n", "environment", "a\n")
    twice = mpi_files.with_block(once, "environment", "b\n")
    assert (
        twice == "# >>> lading hpc: environment >>>\nb\n# <<< lading hpc: environment <<<\nmine\n"
    )
    assert mpi_files.with_block(twice, "environment", "b\n") == twice


def test_the_runtime_is_told_in_both_forms() -> None:
    settings = DaemonSettings(
        world_rank=0, world_size=2, addresses=TWO, extra_ports={"web": {0: "a:1"}}
    )
    config = json.loads(mpi_files.json_text(mpi_files.runtime_config(settings)))
    assert config["CLUSTER_SSH_ADDRESSES"] == {"0": "10.0.0.1:22", "1": "[fd00::1]:2222"}
    assert config["EXTRA_PORTS"] == {"web": {"0": "a:1"}}
    assert "CLUSTER_IPS=10.0.0.1,fd00::1\n" in mpi_files.runtime_lines(settings)
    assert mpi_files.variable_lines({"a": "b", "n": 1}) == "a=b\nn=1\n"
