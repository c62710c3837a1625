"""Defects over all packages, and the tests of real parts that exercise their places.

`python -m tests.affected.mutations [NUMBER...]` plants each in a copy of the repository and runs
its tests of modules there; those that pass regardless are named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_LIMIT: Final = 900.0


@dataclass(frozen=True)
class Mutation:
    """A defect: a text of a file of `src/lading`, and the text in its place. `modules` are the
    tests of modules that find it, `real` the files of tests of real parts that run the place.
    """

    file: str
    text: str
    mutated: str
    modules: str
    real: tuple[str, ...]


MUTATIONS: Final = (
    Mutation(
        "cli/hangup.py",
        "number in full or portable.is_closed_terminal(number) or _has_no_reader(number)", "False",
        "tests/cli/test_hangup.py", ("system/test_closed_terminal.py",),
    ),
    Mutation(
        "client/images/registry.py", "if digest and found != digest:", "if False:",
        "tests/client/images", ("system/test_registry.py",),
    ),
    Mutation(
        "client/images/registry.py", 'f"bytes={start}-"', '"bytes=0-"',
        "tests/client/images", ("system/test_registry.py",),
    ),
    Mutation(
        "dispatch/loop.py", "self._queue.shared = True", "self._queue.shared = False",
        "tests/dispatch", ("system/test_dispatchers.py", "system/test_two_dispatchers.py"),
    ),
    Mutation(
        "supervisor/engines/native.py", "self._runtime.close_gate()", "pass",
        "tests/supervisor/engines", ("system/test_engines.py", "system/test_supervisor.py"),
    ),
    Mutation(
        "fileserving/changes.py", "if not opened.editable:", "if False:",
        "tests/fileserving", ("system/test_files.py",),
    ),
    Mutation(
        "s3/bodies.py", "if md5 is not None and md5.digest() != read_md5(checks.md5):", "if False:",
        "tests/s3", (),
    ),
    Mutation(
        "webdav/locks.py", "if lock.holder != holder:", "if False:",
        "tests/webdav", ("system/test_files.py",),
    ),
    Mutation(
        "tes/transfers/worker.py", "if failures >= _MOST_FAULTS:", "if True:",
        "tests/tes", ("system/test_task_transfers.py",),
    ),
    Mutation(
        "store/permissions.py", "if is_user(head) and level < Level.MANAGE:", "if is_user(head):",
        "tests/store/test_permissions.py", ("security/test_scopes.py", "system/test_bad_input.py"),
    ),
    Mutation(
        "web/compression.py", 'if headers.get("sec-fetch-site") not in _OWN or', "if",
        "tests/web", ("system/test_page.py", "system/test_page_without_scripts.py"),
    ),
    Mutation(
        "config/sections.py", 'if not declared.metadata.get("private")', "if declared.name",
        "tests/config", ("system/test_up.py",),
    ),
    Mutation(
        "process/removal.py", "_move(directory, aside, str(error))", "pass",
        "tests/process", ("security/test_removal.py",),
    ),
    Mutation(
        "net/tunnel.py", "if mine.is_over:", "if False:",
        "tests/net", ("system/test_forwarding.py", "system/test_services.py"),
    ),
    Mutation(
        "hpc/ranks.py", "if number == 0 and self.enter:", "if self.enter:",
        "tests/hpc", ("security/test_gang_links.py",),
    ),
    Mutation(
        "wiring/process.py", "if os.getppid() != parent:", "if False:",
        "tests/wiring", ("system/test_up.py", "system/test_chaos.py"),
    ),
    Mutation(
        "blobs/volume_set.py", "if not mount.is_read_only", "if mount.is_read_only",
        "tests/blobs", ("system/test_storage.py", "security/test_block_writers.py"),
    ),
    Mutation(
        "client/files/uploads.py", "if block not in have:", "if block in have:",
        "tests/client", ("system/test_data.py",),
    ),
    Mutation(
        "supervisor/limits/cgroup.py", 'if kind == "cgroup2":', 'if kind == "cgroup3":',
        "tests/supervisor/limits", ("system/test_memory_hog.py", "system/test_bad_luck.py"),
    ),
    Mutation(
        "dispatch/fleets/cloud/pool.py", "if vm.behavior is not behavior:", "if False:",
        "tests/dispatch/fleets/cloud", ("system/test_cloud.py", "system/test_page_machines.py"),
    ),
    Mutation(
        "dispatch/fleets/slurm/slurm_system.py", "await self._slurm.scancel(jobs)", "pass",
        "tests/dispatch/fleets/slurm", ("system/test_slurm.py",),
    ),
    Mutation(
        "api/webhooks/receivers.py", "if status in _REDIRECTS:", "if False:",
        "tests/api/webhooks", ("system/test_webhooks.py", "security/test_webhook_addresses.py"),
    ),
    Mutation(
        "api/logins/access_tokens.py", "if person is None:", "if False:",
        "tests/api/logins", ("system/test_page_login.py",),
    ),
    Mutation(
        "core/policy/fair_share.py", "if capacity.vcpus <= 0 or capacity.ram <= 0:", "if False:",
        "tests/core/policy/test_fair_share.py", ("system/test_fair_share.py",),
    ),
)  # fmt: skip


def is_found(mutation: Mutation) -> bool:
    """Whether the tests of modules fail in a copy of the repository with the defect."""
    with tempfile.TemporaryDirectory() as folder:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for name in filter(None, listed.split("\0")):
            copy = Path(folder) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy, follow_symlinks=False)
        path = Path(folder) / "src" / "lading" / mutation.file
        path.write_text(path.read_text().replace(mutation.text, mutation.mutated))
        (Path(folder) / ".venv").symlink_to(ROOT / ".venv")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                mutation.modules,
            ],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": f"{folder}/src"},
            stdout=subprocess.DEVNULL,
            timeout=_LIMIT,
            check=False,
        )
    return done.returncode == 1


def main() -> int:
    """Plant them; how many are not found."""
    missed = 0
    for number, mutation in enumerate(MUTATIONS):
        if len(sys.argv) == 1 or str(number) in sys.argv[1:]:
            found = is_found(mutation)
            missed += not found
            print(number, mutation.file, "found" if found else "NOT FOUND", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
