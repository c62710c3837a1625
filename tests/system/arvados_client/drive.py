"""Runs every check against the server of the environment: `python -m
tests.system.arvados_client.drive`.

Prints one JSON object: for each check "" or what went wrong.
"""

from __future__ import annotations

import json
import traceback

from tests.system.arvados_client import (
    containers,
    errors,
    events,
    files,
    filters,
    records,
    resources,
)
from tests.system.arvados_client.site import connect

MODULES = (records, filters, errors, events, files, resources, containers)


def main() -> None:
    """Run them all."""
    site = connect()
    results: dict[str, str] = {}
    for module in MODULES:
        for name, check in vars(module).items():
            if not name.startswith("check_"):
                continue
            try:
                check(site)
            except Exception:  # noqa: BLE001 - every fault is a result
                results[name] = traceback.format_exc(limit=-6)
            else:
                results[name] = ""
    print(json.dumps(results))


if __name__ == "__main__":
    main()
