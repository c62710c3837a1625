"""Files that let HPC code run unchanged in containers: ssh, MPI host file, shell start-up files.

The order is that of the ranks, so the same configuration always gives the same files. Sources:
docs/spec/hpc-daemon, section Files; docs/spec/hpc-daemon, section ssh and host names;
docs/spec/hpc-daemon, section Environment of the code.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from lading.core.hpc.addresses import SshdAddress
from lading.core.hpc.daemon_configuration import (
    DaemonSettings,
    fits_a_variable,
    parameter_text,
    variable_names,
)

HOSTFILE = "/hpcaas/runtime/hostfile"
_BLOCK = "# {edge} lading hpc: {name} {edge}"


def host_name(rank: int) -> str:
    """Host name of a container in its cluster. Open MPI accepts no underscore in host names."""
    return f"container-{rank}"


def _names(rank: int) -> str:
    return f"container_{rank} {host_name(rank)}"


def ssh_config(addresses: Mapping[int, SshdAddress], *, identity: str) -> str:
    """`~/.ssh/config`: every container of the cluster by name, without passwords or questions."""
    lines = [
        "Host *",
        f"  IdentityFile {identity}",
        "  StrictHostKeyChecking no",
        "  UserKnownHostsFile /dev/null",
        "  LogLevel ERROR",
        "",
    ]
    for rank, address in sorted(addresses.items()):
        lines += [
            f"Host {_names(rank)}",
            f"  Hostname {address.host}",
            f"  Port {address.port}",
            "",
        ]
    return "\n".join(lines)


def host_file(addresses: Mapping[int, SshdAddress], *, slots: int) -> str:
    """MPI's host file, one line a container."""
    return "".join(f"{host_name(rank)} slots={slots}\n" for rank in sorted(addresses))


def hosts(addresses: Mapping[int, SshdAddress]) -> str:
    """Lines for `/etc/hosts`, for programs that do not use ssh's configuration."""
    numeric = {rank: address for rank, address in sorted(addresses.items()) if address.is_numeric}
    return "".join(f"{address.host} {_names(rank)}\n" for rank, address in numeric.items())


def environment(settings: DaemonSettings, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Environment of the code: its parameters, bare and as PARAM_name, and its place in the
    cluster.
    """
    variables: dict[str, str] = {}
    for name, value in parameters.items():
        variables[variable_names(name)[-1]] = parameter_text(value)
    variables |= {name: parameter_text(value) for name, value in parameters.items()}
    if settings.addresses:
        names = {"CLUSTER_CONTAINER_NAMES": ",".join(map(host_name, sorted(settings.addresses)))}
        # A longer variable would keep programs from starting; the cluster's files have the complete
        # lists.
        lists = {**names, **_addresses(settings)}.items()
        variables |= {name: value for name, value in lists if fits_a_variable(name, value)}
        # With these a bare `mpirun program` runs on every container, as root, the user of
        # containers.
        variables |= {
            "OMPI_MCA_orte_default_hostfile": HOSTFILE,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_prte_default_hostfile": HOSTFILE,
            "HYDRA_HOST_FILE": HOSTFILE,
        }
    if settings.watched:
        variables["DISTRIBUTED_FILE_SYSTEM_ENABLED"] = "true"
    return variables | _place(settings)


def _addresses(settings: DaemonSettings) -> dict[str, str]:
    """Addresses in the order of the ranks; with ports, IPv6 is in brackets."""
    by_rank = sorted(settings.addresses.items())
    return {
        "CLUSTER_IPS": ",".join(address.host for _, address in by_rank),
        "CLUSTER_SSH_ADDRESSES": ",".join(f"{rank}={address}" for rank, address in by_rank),
    }


def _place(settings: DaemonSettings) -> dict[str, str]:
    place = {"WORLD_RANK": settings.world_rank, "WORLD_SIZE": settings.world_size}
    found = {name: str(value) for name, value in place.items() if value is not None}
    for name, ports in sorted(settings.extra_ports.items()):
        found |= {
            f"EXTRA_PORTS_{name.upper()}_{rank}": address for rank, address in sorted(ports.items())
        }
    return found


def exports(variables: Mapping[str, str]) -> str:
    """Lines for a shell's start-up file."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def variable_lines(parameters: Mapping[str, Any]) -> str:
    """Lines for `/hpcaas/variables`; of a repeated name the last one counts."""
    return "".join(f"{name}={parameter_text(value)}\n" for name, value in parameters.items())


def with_block(file_text: str, name: str, content: str) -> str:
    """The text of a file with our block of that name at its top, replacing an earlier one.

    At the top, since start-up files often end early for non-interactive shells.
    """
    begin, end = _BLOCK.format(edge=">>>", name=name), _BLOCK.format(edge="<<<", name=name)
    remainder = re.sub(
        rf"^{re.escape(begin)}\n.*?^{re.escape(end)}\n",
        "",
        file_text,
        flags=re.MULTILINE | re.DOTALL,
    )
    return f"{begin}\n{content}{end}\n{remainder}"


def runtime_config(settings: DaemonSettings) -> dict[str, Any]:
    """Content of `/hpcaas/runtime/config.json`; `/hpcaas/runtime/config` has its plain values."""
    return {
        "WORLD_RANK": settings.world_rank,
        "WORLD_SIZE": settings.world_size,
        "CLUSTER_IPS": [address.host for _, address in sorted(settings.addresses.items())],
        "CLUSTER_SSH_ADDRESSES": {
            str(rank): str(address) for rank, address in sorted(settings.addresses.items())
        },
        "EXTRA_PORTS": {
            name: {str(rank): address for rank, address in ports.items()}
            for name, ports in settings.extra_ports.items()
        },
    }


def runtime_lines(settings: DaemonSettings) -> str:
    """`/hpcaas/runtime/config`: the same as lines of NAME=value."""
    return "".join(
        f"{name}={value}\n" for name, value in (_place(settings) | _addresses(settings)).items()
    )


def json_text(value: object) -> str:
    """A file of JSON."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
