"""Program that checks whether a VM reaches the API, sent over ssh as one argument of `python3 -c`.

Only the standard library of Python 3.9 may be used. The arguments are the URL of the server and its
certificate in PEM. The result is one line of JSON: {"said": ...} or {"error": ...}.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

PATH = "/arvados/v1/config"
PATIENCE = 20
"""Seconds for one request from a VM: longer than a retried SYN and a TLS handshake take."""


def main(url: str, certificate: str) -> int:
    """Ask for the public configuration; 0 when it came."""
    try:
        said = f"it serves the cluster {_fetch(url, certificate)['ClusterID']}"
    except urllib.error.URLError as error:
        return _tell(error=str(error.reason) or "no answer")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _tell(error=f"{error!s} (is it a server of Lading?)")
    return _tell(said=said)


def _fetch(url: str, certificate: str) -> Any:
    context = ssl.create_default_context(cadata=certificate or None)
    if certificate:
        # Only this certificate is trusted; the names in it do not matter.
        context.check_hostname = False
    # A proxy of the instance is not on the way that supervisors take.
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with urllib.request.build_opener(*handlers).open(url + PATH, timeout=PATIENCE) as answer:
        return json.load(answer)


def _tell(**words: str) -> int:
    print(json.dumps(words))  # noqa: T201 - its answer
    return "error" in words


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
