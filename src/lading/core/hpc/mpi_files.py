"""The texts of the files that make HPC code unaware of its containers: ssh, MPI host file, shell
start-up files.

Order is that of the ranks, so that the same configuration always gives the same files.
Sources: docs/spec/hpc-daemon, section Files; docs/spec/hpc-daemon, section ssh and host names;
docs/spec/hpc-daemon, section Environment of the code.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from lading.core.hpc.cluster_addresses import Address
from lading.core.hpc.daemon_configuration import (
    Settings,
    fits_a_variable,
    parameter_text,
    variable_names,
)

HOSTFILE = "/hpcaas/runtime/hostfile"
_BLOCK = "# {edge} lading hpc: {name} {edge}"


def host_name(rank: int) -> str:
    """What a container of the cluster is called in it. Open MPI takes no underscore in the name of
    a machine.
    """
    return f"container-{rank}"


def _names(rank: int) -> str:
    return f"container_{rank} {host_name(rank)}"


def ssh_config(addresses: Mapping[int, Address], *, identity: str) -> str:
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


def host_file(addresses: Mapping[int, Address], *, slots: int) -> str:
    """MPI's host file, one line a container."""
    return "".join(f"{host_name(rank)} slots={slots}\n" for rank in sorted(addresses))


def hosts(addresses: Mapping[int, Address]) -> str:
    """Lines for `/etc/hosts`: names of the cluster for programs that know nothing of ssh's
    configuration.
    """
    numeric = {rank: one for rank, one in sorted(addresses.items()) if one.is_numeric}
    return "".join(f"{one.host} {_names(rank)}\n" for rank, one in numeric.items())


def environment(settings: Settings, parameters: Mapping[str, Any]) -> dict[str, str]:
    """What the code finds in its environment: its parameters, bare and as PARAM_name, and its place
    in the cluster.
    """
    found: dict[str, str] = {}
    for name, value in parameters.items():
        found[variable_names(name)[-1]] = parameter_text(value)
    found |= {name: parameter_text(value) for name, value in parameters.items()}
    if settings.addresses:
        names = {"CLUSTER_CONTAINER_NAMES": ",".join(map(host_name, sorted(settings.addresses)))}
        # With a longer one no program could be started; the files of the cluster have them all.
        lists = {**names, **_addresses(settings)}.items()
        found |= {name: value for name, value in lists if fits_a_variable(name, value)}
        # So that a bare `mpirun program` runs on every container, as root, as containers do.
        found |= {
            "OMPI_MCA_orte_default_hostfile": HOSTFILE,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_prte_default_hostfile": HOSTFILE,
            "HYDRA_HOST_FILE": HOSTFILE,
        }
    if settings.watched:
        found["DISTRIBUTED_FILE_SYSTEM_ENABLED"] = "true"
    return found | _place(settings)


def _addresses(settings: Settings) -> dict[str, str]:
    """In the order of the ranks; with ports, IPv6 is in brackets."""
    by_rank = sorted(settings.addresses.items())
    return {
        "CLUSTER_IPS": ",".join(one.host for _, one in by_rank),
        "CLUSTER_SSH_ADDRESSES": ",".join(f"{rank}={one}" for rank, one in by_rank),
    }


def _place(settings: Settings) -> dict[str, str]:
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
    """Lines for `/hpcaas/variables`; of a name that stands there twice the last one counts."""
    return "".join(f"{name}={parameter_text(value)}\n" for name, value in parameters.items())


def with_block(text: str, name: str, content: str) -> str:
    """The text of a file with our block of that name at its top, in place of the one that was
    there.

    The top, since start-up files often end early for shells that nobody sits at.
    """
    begin, end = _BLOCK.format(edge=">>>", name=name), _BLOCK.format(edge="<<<", name=name)
    rest = re.sub(
        rf"^{re.escape(begin)}\n.*?^{re.escape(end)}\n", "", text, flags=re.MULTILINE | re.DOTALL
    )
    return f"{begin}\n{content}{end}\n{rest}"


def runtime_config(settings: Settings) -> dict[str, Any]:
    """The content of `/hpcaas/runtime/config.json`; the lines of `/hpcaas/runtime/config` are its
    plain values.
    """
    return {
        "WORLD_RANK": settings.world_rank,
        "WORLD_SIZE": settings.world_size,
        "CLUSTER_IPS": [one.host for _, one in sorted(settings.addresses.items())],
        "CLUSTER_SSH_ADDRESSES": {
            str(rank): str(one) for rank, one in sorted(settings.addresses.items())
        },
        "EXTRA_PORTS": {
            name: {str(at): one for at, one in ports.items()}
            for name, ports in settings.extra_ports.items()
        },
    }


def runtime_lines(settings: Settings) -> str:
    """`/hpcaas/runtime/config`: the same as lines of NAME=value."""
    return "".join(
        f"{name}={value}\n" for name, value in (_place(settings) | _addresses(settings)).items()
    )


def json_text(value: object) -> str:
    """A file of JSON."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
