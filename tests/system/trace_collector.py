"""A collector of traces for tests of running sites."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """A collector of OpenTelemetry, by OTLP over HTTP, that keeps the spans of one trace."""

    def __init__(self, trace: str) -> None:
        super().__init__(("127.0.0.1", 0), _Export)
        self.trace = trace
        self.spans: set[tuple[str, str]] = set()
        self.authorizations: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_port}/v1/traces"

    def wait_for(self, wanted: set[tuple[str, str]], seconds: float = 60.0) -> None:
        """Wait until these spans (service, name) of the trace have come."""
        until = time.monotonic() + seconds
        while not wanted <= self.spans:
            assert time.monotonic() < until, f"{wanted - self.spans} are not in {self.spans}"
            time.sleep(0.1)


class _Export(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.authorizations.add(self.headers.get("Authorization", ""))
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.server.spans |= {
                    (named["service.name"], one.name)
                    for one in scope.spans
                    if one.trace_id.hex() == self.server.trace
                }
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def collecting(trace: str) -> Iterator[Collector]:
    """A collector of the spans of a trace (32 hexadecimal digits) while inside."""
    with Collector(trace) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
