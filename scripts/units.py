"""Writes the systemd units of the Debian package, as `lading service install` writes them.

`units.py DIRECTORY`: the unit of the machine into DIRECTORY/system, that of a user into
DIRECTORY/user.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lading.cli.service import unit_text

PROGRAM = ("/usr/bin/lading",)
LISTEN = "127.0.0.1:9440"
"""The address of the machine's service; that of a user finds a free port by itself."""


def main(directory: Path) -> None:
    """Write both; of a user's unit systemd replaces %h by the home directory."""
    data = {"system": "/var/lib/lading", "user": "%h/.local/share/lading"}
    for kind, place in data.items():
        is_user = kind == "user"
        listen = "" if is_user else LISTEN
        text = unit_text(PROGRAM, data=Path(place), listen=listen, of_user=is_user)
        # unit_text quotes the percent sign; here it is a specifier.
        (directory / kind / "lading.service").write_text(text.replace("%%h", "%h"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
