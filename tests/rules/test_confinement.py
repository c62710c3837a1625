"""Trees that containers, images and strangers wrote are walked, opened and removed in one module
only.

Such a tree's owner may swap a directory for a link, nest directories without end, and make a fifo
where a file is expected. `process.confined` is made for that. Each exception below is a call by
path in a place that nobody but the product itself, or the machine's administrator, writes to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.rules.sources import PRODUCT, modules, nodes, refuse, shown

PACKAGES = (
    "api",
    "blobs",
    "client",
    "dispatch",
    "hpc",
    "supervisor",
    "webdav",
    "fileserving",
    "gateway",
    "wiring",
    "cli",
)

REMOVING = frozenset({"rmtree", "removedirs"})
MAY_REMOVE = {
    "client/images/runner.py": (
        "the Python environment that this user's own command makes for the runner"
    ),
    "dispatch/fleets/cloud/agent.py": "the runner sends it; only the standard library is there",
    "wiring/backup.py": (
        "a data directory that this process was about to restore, as names from a list"
    ),
}

WALKING = frozenset(
    {"rglob", "glob", "iterdir", "walk", "fwalk", "scandir", "listdir", "copytree", "extractall"}
)
MAY_WALK = {
    "hpc/delivery.py": (
        "runs inside the container, as what it reads does: the results of the code beside it"
    ),
    "hpc/daemon.py": "runs inside the container",
    "hpc/package.py": "the modules of this installation",
    "hpc/processes.py": "/proc",
    "supervisor/capture.py": "the log directory, written by the supervisor alone",
    "supervisor/limits/gpu_locks.py": "device files of the machine",
    "process/gpus/cdi_files.py": "/etc/cdi and /var/run/cdi of the machine",
    "supervisor/limits/disk_usage.py": (
        "descriptors of directories opened through `process.confined`; names of run directories"
    ),
    "supervisor/limits/memory_samples.py": "the /proc of a container, by a descriptor",
    "supervisor/limits/open_files.py": "/proc",
    "supervisor/engines/runtimes/crun_runtime.py": "the state directory of crun",
    "supervisor/engines/user_namespace.py": "mount points and marks that the product made",
    "supervisor/engines/crun.py": "the machine's own /proc",
    "supervisor/gang/output_archive.py": "`ConfinedTree.walk`",
    "supervisor/container_gateway/ports.py": "/proc",
    "supervisor/inputs/daemon_image.py": "`MergedLayers.walk`, by `ConfinedTree`s",
    "supervisor/inputs/image_archive.py": "files of the image cache, by patterns of their names",
    "supervisor/inputs/layers.py": (
        "files of the image cache, by patterns of their names; entries of the layer cache, not "
        "what is in a layer"
    ),
    "supervisor/linux.py": "/proc",
    "supervisor/network/routes.py": "/sys",
    "supervisor/gang/rank_launcher.py": "names of directories that the product made",
    "supervisor/process/register.py": "lock files",
    "supervisor/process/warmup.py": "directories of dead forkservers",
    "supervisor/inputs/container_files.py": "`ConfinedTree.walk`",
    "supervisor/inputs/mounted_files.py": "input collections, before the container is there",
    "supervisor/process/forkserver.py": "names of run directories",
}

# Modules that handle such trees, and what they may open by path.
OPENING = frozenset(
    {"open", "read_text", "read_bytes", "write_text", "write_bytes", "chmod", "chown", "mknod"}
)
TREES = (
    "supervisor/gang/gang_output.py",
    "supervisor/inputs/layer_writer.py",
    "supervisor/inputs/merged_layers.py",
    "supervisor/inputs/unpack.py",
    "supervisor/inputs/git_archives.py",
    "process/removal.py",
)
MAY_OPEN = {
    ("supervisor/gang/gang_output.py", "archive_path.open"): "an archive in the conductor's spool",
    ("supervisor/gang/gang_output.py", "source.open"): "a stream in the conductor's spool",
    ("supervisor/inputs/git_archives.py", "archive.open"): "the archive that the server sent",
    ("supervisor/inputs/git_archives.py", "received.open"): "the blob that the server sent",
    (
        "supervisor/inputs/git_archives.py",
        "target.chmod",
    ): "the one file of a directory that this process has just made",
}


def _calls(path: Path) -> Iterator[ast.Call]:
    for node in nodes(path):
        if isinstance(node, ast.Call):
            yield node


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _users(names: frozenset[str], packages: tuple[str, ...]) -> set[str]:
    return {
        shown(path)
        for path in modules(*(PRODUCT / package for package in packages))
        if any(_called(node) in names for node in _calls(path))
    }


def test_foreign_trees_are_removed_by_descriptors() -> None:
    refuse(_users(REMOVING, PACKAGES) - MAY_REMOVE.keys())


def test_foreign_trees_are_walked_by_descriptors() -> None:
    refuse(_users(WALKING, ("supervisor", "hpc")) - MAY_WALK.keys())


def _by_path(node: ast.Call) -> bool:
    """Whether a call opens something by its path: no descriptor of a directory, and no open
    descriptor, is given.
    """
    if _called(node) not in OPENING:
        return False
    name = ast.unparse(node.func)
    if name in ("ConfinedTree.open", "TarReader.open") or name.startswith(("self._tree.", "tree.")):
        return False
    by_descriptor = any(keyword.arg in ("dir_fd", "fileobj") for keyword in node.keywords)
    # `open` and `os.chmod` of a number: what was opened by a descriptor before.
    first = ast.unparse(node.args[0]) if node.args else ""
    return not by_descriptor and not first.startswith(
        ("descriptor", "os.open(", "os.dup(", "self._create(", "1")
    )


def test_foreign_trees_are_opened_by_descriptors() -> None:
    found = {
        (module, ast.unparse(node.func))
        for module in TREES
        for node in _calls(PRODUCT / module)
        if _by_path(node) and not ast.unparse(node.func).startswith("self.")
    }
    refuse(found - MAY_OPEN.keys())


def test_every_exception_has_its_reason() -> None:
    assert all(
        len(reason) > 3 for table in (MAY_REMOVE, MAY_WALK, MAY_OPEN) for reason in table.values()
    )
