"""Processor of an image, and accounts: the ids of its user, by its own /etc/passwd and
/etc/group.
"""

from __future__ import annotations

import os
from pathlib import Path

from lading.core import images
from lading.core.images import Account, ImageConfig
from lading.process import root_files
from lading.supervisor import linux

# Most images have one of these: no need to read the container's files.
_ROOT = ("", "0", "root", "0:0", "root:root")


class LargeIds(Exception):
    """The account of an image has large ids that the container's user namespace lacks."""

    def __init__(self, ids: frozenset[int]) -> None:
        super().__init__(ids)
        self.ids = ids


def check_architecture(config: ImageConfig) -> None:
    """Raise ExecutionError(IMAGE) for an image that this machine cannot run."""
    machine = os.uname().machine
    if not images.runs_on(config.architecture, images.goarch(machine)):
        images.check_architecture(config.architecture, machine, is_emulated=linux.has_emulators())


def account_of(user: str, rootfs: Path) -> Account:
    """The ids of a user, in the form of a USER line, by the files of a container's root. Raises
    ExecutionError(IMAGE).
    """
    if user in _ROOT:
        return Account(0, 0)
    passwd, group = (
        root_files.read_text_in_root(rootfs, name) for name in ("etc/passwd", "etc/group")
    )
    return images.account(user, passwd=passwd, group=group)
