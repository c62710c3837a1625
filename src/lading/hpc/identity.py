"""What a daemon proves itself with: certificate, key and authorization.

They come with the environment, or are the files of an earlier start. They are taken out of the
environment, also of what /proc/PID/environ shows: no program that the daemon starts finds them
there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lading.core.errors import Invalid
from lading.hpc.layout import PRIVATE, read_text, write

FILES: Final = {
    "TLS_PUBLIC_CERT": "tls_server.crt",
    "TLS_PRIVATE_KEY": "tls_server.key",
    "AUTHORIZATION": "authorization",
}
"""Variables, and the files in the daemon's directory that keep their values."""


def read_identity(own: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The three values by the names of the variables. Raises Invalid naming those that are
    missing.
    """
    found = {name: environment.get(name) or read_text(own / file) for name, file in FILES.items()}
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise Invalid(
            f"{', '.join(missing)} missing: "
            "give certificate, key and authorization in the environment"
        )
    return found


def keep_identity(own: Path, values: Mapping[str, str]) -> None:
    """Write the values to their files, for the next start. Raises OSError."""
    for name, file in FILES.items():
        write(own / file, values[name], mode=PRIVATE)


def forget_environment() -> None:
    """Overwrite the values in the memory that the system shows as the environment of this
    process.
    """
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    for name in FILES:
        place = libc.getenv(name.encode())
        if place:
            ctypes.memset(place, 0, len(ctypes.string_at(place)))
        os.environ.pop(name, None)
