"""Who uses the service that is measured, and what they ask for: steps of sequencing pipelines, each
with its own reads.

The members of a laboratory run them in projects; `ALICE` is an ordinary user who can read six
projects of ten through the role that she is in, and owns what the benchmark makes. Names are the
same in every run, so that a filled database can be used again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lading.core import ids
from lading.core.ids import Infix

USERS: Final = 50
PROJECTS: Final = 200
INPUTS: Final = 100
LOCKERS: Final = 20
OTHERS: Final = 1000
"""Tokens of other users."""
READABLE: Final = 6
"""Of ten projects, Alice can read so many."""
MARK: Final = "sample-0000000"
"""Stands for the name of a step's own sample."""
_SECRET: Final = "bench"


@dataclass(frozen=True, slots=True)
class Site:
    """The uuids of one cluster."""

    cluster: str

    def uuid(self, infix: str, *what: object) -> str:
        """A uuid that looks as random as others, yet is that of `what` in every run."""
        return ids.make_uuid(self.cluster, infix, _chance(infix, *what))

    def uuid_of(self, moment: datetime, infix: str, *what: object) -> str:
        """As `uuid`, as a server makes it at a moment."""
        milliseconds = int(moment.timestamp() * 1000)
        return ids.make_ordered_uuid(
            self.cluster, infix, _chance(infix, *what)[:6], milliseconds=milliseconds
        )

    @property
    def alice(self) -> str:
        """The user who calls."""
        return self.user(0)

    @property
    def lab(self) -> str:
        """The role through which she reads what others own."""
        return self.uuid(Infix.GROUP, "lab")

    def user(self, number: int) -> str:
        """One of USERS."""
        return self.uuid(Infix.USER, "user", number)

    def project(self, number: int) -> str:
        """One of PROJECTS."""
        return self.uuid(Infix.GROUP, "project", number)

    def token_uuid(self, holder: str) -> str:
        """The token of somebody: "alice", or "locker 3"."""
        return self.uuid(Infix.TOKEN, holder)

    def token(self, holder: str) -> str:
        """That token as it is sent."""
        return f"v2/{self.token_uuid(holder)}/{secret(holder)}"


def _chance(*what: object) -> bytes:
    return hashlib.blake2b(":".join(map(str, what)).encode(), digest_size=12).digest()


def secret(holder: str) -> str:
    """The secret part of a token of this database of samples."""
    return hashlib.sha256(f"{_SECRET} {holder}".encode()).hexdigest()[:50]


def readable(project: int) -> bool:
    """Whether Alice can read a project."""
    return project % 10 < READABLE


def name(number: int) -> str:
    """The name of a step's own sample, as long as MARK."""
    return f"sample-{number:07d}"


def pdh(*what: object) -> str:
    """A portable data hash of a small collection."""
    text = ":".join(map(str, what))
    return f"{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}+{50 + len(text)}"


IMAGE: Final = pdh("image")
REFERENCE: Final = pdh("reference")


def body(sample: str, reads: int, **more: object) -> dict[str, Any]:
    """The request for one step of a pipeline on one sample; `reads` is one of INPUTS."""
    return {
        "name": f"align {sample}",
        "state": "Committed",
        "priority": 500,
        "container_image": IMAGE,
        "command": [
            "bwa", "mem", "-t", "8", "-R", f"@RG\\tID:{sample}\\tSM:{sample}\\tPL:ILLUMINA",
            "/keep/reference/hg38.fa",
            f"/keep/reads/{sample}_1.fastq.gz", f"/keep/reads/{sample}_2.fastq.gz",
        ],
        "cwd": "/var/spool/cwl",
        "environment": {"HOME": "/var/spool/cwl", "TMPDIR": "/tmp"},
        "mounts": {
            "/keep/reference": {"kind": "collection", "portable_data_hash": REFERENCE},
            "/keep/reads": {"kind": "collection", "portable_data_hash": pdh("reads", reads)},
            "/var/spool/cwl": {"kind": "tmp", "capacity": 64 << 30},
            "/tmp": {"kind": "tmp", "capacity": 16 << 30},
            "/var/lib/cwl/cwl.input.json": {
                "kind": "json", "content": {"sample": sample, "threads": 8},
            },
            "stdout": {"kind": "file", "path": f"/var/spool/cwl/{sample}.sam"},
        },
        "runtime_constraints": {"vcpus": 8, "ram": 16 << 30, "keep_cache_ram": 256 << 20},
        "scheduling_parameters": {"max_run_time": 86400},
        "output_path": "/var/spool/cwl",
        "output_name": f"alignments of {sample}",
        "output_ttl": 0,
        "properties": {"sample": sample, "step": "align"},
        **more,
    }  # fmt: skip


def authorized(token: str) -> Mapping[str, str]:
    """The headers of a call."""
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
