"""What each page takes for granted: shell commands that run before its first block, and what the
machine must have.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT, blocks
from tests.reality import need_program

Variables = Mapping[str, str]
Around = Callable[[Path], AbstractContextManager[Variables]]


@dataclass(frozen=True)
class Site:
    """One page's. `around` is entered before the shell, and gives it variables."""

    prepare: str = ""
    programs: tuple[str, ...] = ()
    around: Around = lambda _: nullcontext({})


UP: Final = """
lading up >up.out 2>&1 &
until grep -q ready up.out; do kill -0 $! || { cat up.out; return 1; }; sleep 0.05; done
"""
TOOLS: Final = (
    f"{UP}\n"
    "lading image add --name tools:1 --from-host sh sleep cat awk grep sort seq wc ls ps true\n"
)
PHAGE: Final = f"""
mkdir -p phage/steps; echo notes >phage/steps/notes.txt
cp {ROOT}/examples/phage/README.md {ROOT}/examples/phage/*.fa {ROOT}/examples/phage/*.gz phage
"""
CHECKOUT: Final = f"""
mkdir checkout; cd checkout
for one in Makefile scripts requirements pyproject.toml src examples .venv; do
    ln -s "{ROOT}/$one" .
done
"""
COUNTS: Final = "printf 'b\\t1\\na\\t2\\n' >counts.tsv\n"


def service(name: str) -> str:
    """Commands that start a service of `tests.docs.services`, and wait until it serves."""
    return f"""
( cd {ROOT} && exec python -m tests.docs.services {name} $HOME/{name}.d ) >{name}.out 2>&1 &
until [ -e {name}.d/env ]; do kill -0 $! || {{ cat {name}.out; return 1; }}; sleep 0.05; done
. {name}.d/env
"""


def serve(config: str, directory: str = "~/.local/share/lading") -> str:
    """Commands that write a configuration and start the server with it."""
    return f"mkdir -p {directory}; cat >{directory}/config.yml <<'END'\n{config}\nEND\n{UP}"


def shown(page: str, word: str) -> str:
    """The YAML block of a page that has this word in it."""
    (found,) = [one.text for one in blocks(page) if one.language == "yaml" and word in one.text]
    return found


@contextmanager
def arvados(_: Path) -> Iterator[Variables]:
    """The programs of the Arvados client on the path."""
    from tests.system.arvados_client.environment import client_environment

    yield {"PATH": f"{client_environment()}:{ROOT}/.venv/bin:{os.environ['PATH']}:/usr/sbin:/sbin"}


@contextmanager
def s3_clients(_: Path) -> Iterator[Variables]:
    """The clients of S3 on the path."""
    from tests.system.environments import environment

    clients = environment("s3-clients")
    yield {"PATH": f"{ROOT}/.venv/bin:{clients}:{os.environ['PATH']}:/usr/sbin:/sbin"}


@contextmanager
def snakemake(_: Path) -> Iterator[Variables]:
    """Snakemake on the path, with the plugins of this checkout."""
    from tests.system.snakemake_environment import variables

    found = variables()
    yield {**found, "PATH": f"{found['PATH']}:/usr/sbin:/sbin"}


@contextmanager
def docker(directory: Path) -> Iterator[Variables]:
    """A Docker with an image debian:12, which is small."""
    from tests.system.docker_daemon import running_docker_daemon

    need_program("dockerd")
    with running_docker_daemon() as daemon:
        variables = {"DOCKER_HOST": f"unix://{daemon.socket}"}
        (directory / "root").mkdir()
        archive = subprocess.run(
            ["tar", "-C", directory / "root", "-c", "."], capture_output=True, check=True
        ).stdout
        subprocess.run(
            ["docker", "import", "-", "debian:12"],
            env=os.environ | variables,
            input=archive,
            check=True,
        )
        yield variables


ENTER: Final = ". ~/.local/share/lading/env\n"
SLURM: Final = f"""{service("slurm")}
mkdir -p hooks
{
    serve(
        "Containers: {Dispatcher: slurm, ReserveExtraRAM: 0, "
        "SLURM: {PollPeriod: 500ms, NodeDirectory: /home/ann/node, "
        "HookDirectory: /home/ann/hooks}}"
    )
}
lading image add --name tools:1 --from-host sh sleep seq
"""
ONE_AT_A_TIME: Final = serve("Local: {MaxContainers: 1}")
IMAGE: Final = (
    "lading image add --name tools:1 --from-host sh sleep cat awk grep sort seq wc ls ps true"
)
SFTP: Final = f"""{UP}
{IMAGE} python3 /usr/lib/openssh/sftp-server
echo 1,2 >results.csv
lading user create ada
{ENTER}"""
SOME: Final = (
    "mkdir phage; "
    f"cp {ROOT}/examples/phage/lambda_phage.fa {ROOT}/examples/phage/reads_1.fq.gz phage\n"
)
COLLECTION: Final = """
mkdir -p data/sub; seq 100 >data/sub/reads.fq; echo "local file" >local.txt
UUID=$(lading put --json data | grep -o '[a-z0-9]*-4zz18-[a-z0-9]*' | head -n 1)
printf 'machine 127.0.0.1\nlogin any\npassword %s\n' "$ARVADOS_API_TOKEN" >.netrc; chmod 600 .netrc
"""
SAVED: Final = """
lading image add --name saved:1 --from-host sh
lading get "$(lading image ls --json | grep -o '[a-z0-9]*-4zz18-[a-z0-9]*' | head -n 1)" image/
cp image/sha256*.tar saved.tar
mkdir -p root/bin; cp /bin/true root/bin
"""

POSTGRESQL: Final = f"""
{service("postgresql")}
mkdir data other
lading up --data data >up.out 2>&1 &
until grep -q ready up.out; do kill -0 $! || {{ cat up.out; return 1; }}; sleep 0.05; done
(. data/env; {IMAGE}; lading run -- seq 3)
kill %+; wait %+ || :
cat >data/config.yml <<'END'
{shown("docs/postgresql.md", "PostgreSQL")}
END
"""

GPU_MACHINE: Final = """Containers: {DeviceRoot: /home/ann/machine}
Local: {GPUDriverVersion: "12.2", GPUHardwareTargets: ["8.6"], GPUMemory: 24GiB}"""
# Device files without a GPU behind them.
GPUS: Final = f"""
mkdir -p machine/dev
for name in nvidia0 nvidia1 nvidiactl nvidia-uvm; do mknod -m 666 machine/dev/$name c 1 3; done
{serve(GPU_MACHINE)}
{IMAGE}
"""

MPI: Final = ("crun", "mpicc", "mpirun", "sshd")
HPC_IMAGE: Final = "lading image hpc\n"
CLOUD: Final = """
ip link add lading0 type bridge; ip addr add 10.88.0.1/16 dev lading0; ip link set lading0 up
mkdir site; cat >site/config.yml <<'END'
InstanceTypes:
  three: {VCPUs: 3, RAM: 4GiB, IncludedScratch: 40GiB, Price: 0.3}
Containers:
  Dispatcher: cloud
  CloudVMs: {Driver: loopback, BootProbeCommand: "true"}
END
lading up --data site --listen 10.88.0.1:8443 >up.out 2>&1 &
until grep -q ready up.out; do kill -0 $! || { cat up.out; return 1; }; sleep 0.05; done
. site/env
"""

SITES: Final[Mapping[str, Site]] = {
    "README.md": Site(f"{CHECKOUT}unset LADING_START\n", ("crun",)),
    "docs/tour.md": Site(
        f"{TOOLS}cp {ROOT}/examples/phage/lambda_phage.fa .; "
        f"mkdir reads; cp {ROOT}/examples/phage/*.gz reads\n",
        ("crun",),
        arvados,
    ),
    "docs/first-pipeline.md": Site(programs=("crun",)),
    "docs/migrating.md": Site(TOOLS + COUNTS, ("crun",)),
    "docs/monitoring.md": Site(TOOLS, ("crun", "curl")),
    "docs/requests.md": Site(TOOLS + COUNTS + ENTER, ("crun", "curl")),
    "docs/python.md": Site(
        f"{UP}\n{IMAGE} /usr/bin/python3\n{COUNTS}", ("crun", "/usr/bin/python3")
    ),
    "docs/mcp.md": Site(TOOLS, ("crun",)),
    "docs/gpus.md": Site(GPUS, ("crun",)),
    "docs/reuse.md": Site(TOOLS + COUNTS, ("crun",)),
    "docs/secrets.md": Site(TOOLS, ("crun",)),
    "docs/tes.md": Site(f"{UP}\n{IMAGE} tee\n{ENTER}", ("crun", "curl")),
    "docs/snakemake.md": Site(
        TOOLS.replace(" sh ", " sh bash tr tail mkdir ") + COUNTS, ("crun",), snakemake
    ),
    "docs/runs.md": Site(UP, ("crun",)),
    "docs/provenance.md": Site(TOOLS + COUNTS, ("crun", "unzip", "ssh")),
    "docs/why.md": Site(f"{ONE_AT_A_TIME}\n{IMAGE}\n{COUNTS}", ("crun",)),
    "docs/web.md": Site(UP),
    "docs/webhooks.md": Site(serve("Webhooks: {AllowedNetworks: [127.0.0.1/32]}")),
    "docs/quotas.md": Site(TOOLS, ("crun",)),
    "docs/service.md": Site("unset LADING_START; echo notes >notes.txt\n"),
    "docs/shell.md": Site(SFTP, ("crun", "ssh", "scp", "curl")),
    "docs/sharing.md": Site(
        f"{UP}{SOME}{IMAGE}\nlading put phage\nlading run --image tools:1 -- seq 3\n{ENTER}",
        ("crun", "curl"),
    ),
    "docs/data.md": Site(UP + PHAGE),
    "docs/images.md": Site(
        f"{service('registry')}{UP}{SAVED}\n{ENTER}lading user create ada --email ada@example.org\n"
        "lading project create lab\nlading image add --name bio:2 --from-host seq\n",
        ("crun", "docker-registry", "bowtie2"),
        docker,
    ),
    "docs/s3.md": Site(UP + PHAGE, (), s3_clients),
    "docs/mount.md": Site(UP + SOME + "lading put phage\n", ("fusermount3",)),
    "docs/collections.md": Site(
        UP + ENTER + COLLECTION, ("cadaver", "mount.davfs", "curl", "unzip")
    ),
    "docs/upgrade.md": Site(UP),
    "docs/backup.md": Site(TOOLS, ("crun",)),
    "docs/arvados.md": Site(CHECKOUT, ("bowtie2", "fusermount3"), arvados),
    "docs/dispatchers.md": Site(TOOLS, ("crun",)),
    "docs/dispatchers.md#slurm": Site(SLURM, ("slurmctld", "munged")),
    "docs/cloud.md": Site(programs=("crun", "sshd", "nsenter")),
    "docs/postgresql.md": Site(POSTGRESQL, ("crun", "pg_dump", "initdb")),
    "docs/hpc.md": Site(CHECKOUT + serve("Local: {VCPUs: 8}"), MPI),
    "docs/hpc.md#slurm": Site(SLURM + HPC_IMAGE, (*MPI, "slurmctld", "munged")),
    "docs/hpc.md#cloud": Site(CLOUD + HPC_IMAGE, (*MPI, "nsenter")),
}
