"""An EC2 service for tests: moto's server in a thread, one for all tests of a process."""

from __future__ import annotations

import functools


@functools.cache
def ec2_endpoint() -> str:
    """Where it is; it is started when it is asked for first."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"
