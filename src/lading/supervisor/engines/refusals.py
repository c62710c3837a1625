"""Causes of a container that an engine refuses to make or start, by the words of its message.

crun, runc, Docker and podman answer in free text. A message of a table below is about the image or
the command: it is the same on every machine and at every attempt, so the failure is final. Any
other message counts as a fault of the machine.
"""

from __future__ import annotations

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import command_failure

# The account of the image; its name may be any word, also one of the other tables.
_ACCOUNT = (
    "unable to find user",
    "unable to find group",
    "no matching entries in passwd",
    "no matching entries in group",
    "uids and gids must be in range",
)
# Settings of the image, and files of it where the engine mounts its own.
_IMAGE = (
    "not a directory",
    "too many links",
    "too many levels of symbolic links",
    "file name too long",
    "cwd must be an absolute path",
    "environment variable",
    "env fields from image",
    "invalid signal",
    "imagedata",
    "cannot mount volume over existing file",
    "because it is inside /proc",
    "create device",
    "reopening /dev/null",
)
# Words of a conductor, and of the engines about the command of an image.
_NOT_MADE = "its container cannot be made"
_COMMAND = ("executable file", "exec format", "no such file", "permission denied", "no command")
_NO_ROOM = ("no space left on device", "disk quota exceeded")
# Characters of the beginning and of the end of a message: names of an image have any length, and
# the cause is at the end.
_BEGIN, _END = 50, 110


def start_refusal(message: str, *, command: tuple[str, ...]) -> ExecutionError:
    """The error for a refusal to start: IMAGE, USER where it has one of the words `command`, or
    NODE.
    """
    refused = _account_refusal(message)
    if refused is not None:
        return refused
    if any(words in message for words in command):
        return command_failure(_shortened(message))
    return image_refusal(message) or ExecutionError(
        f"the container cannot be started: {_shortened(message)}", Failure.NODE
    )


def first_process_refusal(message: str) -> ExecutionError | None:
    """ExecutionError(IMAGE) for a message about the first process of a gang's container, which its
    image names; None for any other.
    """
    if _NOT_MADE not in message:
        return None
    if _has(message, _COMMAND):
        return ExecutionError(
            f"the image's first process cannot be started: {_shortened(message)}", Failure.IMAGE
        )
    return image_refusal(message)


def image_refusal(message: str) -> ExecutionError | None:
    """ExecutionError(IMAGE) for a message about the image, None for any other."""
    refused = _account_refusal(message)
    if refused is None and _has(message, _IMAGE):
        return ExecutionError(
            f"the image cannot be used as it is: {_shortened(message)}", Failure.IMAGE
        )
    return refused


def machine_fault(_: str) -> Failure:
    """Cause of a refusal that is not about the image, whatever it says."""
    return Failure.NODE


def load_refusal(message: str) -> Failure:
    """Cause of a daemon's refusal to load an image: its disk, or the image."""
    return Failure.DISK if _has(message, _NO_ROOM) else Failure.IMAGE


def _account_refusal(message: str) -> ExecutionError | None:
    if not _has(message, _ACCOUNT):
        return None
    return ExecutionError(
        f"the image's user cannot be known: {_shortened(message)}; "
        "its USER must be in its /etc/passwd and /etc/group, or be numbers",
        Failure.IMAGE,
    )


def _has(message: str, table: tuple[str, ...]) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in table)


def _shortened(message: str) -> str:
    return message if len(message) <= _BEGIN + _END else f"{message[:_BEGIN]}...{message[-_END:]}"
