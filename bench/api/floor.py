"""The floor: a bare starlette route with one SQLite insert, or none, served as the API is.

python -m bench.api.floor --socket PATH --database FILE --ready-fd N
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_encode = msgspec.json.Encoder().encode


def make_app(database: str) -> Starlette:
    """GET answers a small document, POST stores it first."""
    connection = sqlite3.connect(database, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = wal",
        "PRAGMA synchronous = normal",
        "CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, content TEXT)",
    ):
        connection.execute(statement)

    async def get(request: Request) -> Response:  # noqa: ARG001 - a route takes it
        return Response(_encode({"id": 1}), media_type="application/json")

    async def post(request: Request) -> Response:
        content = msgspec.json.decode(await request.body())
        cursor = connection.execute(
            "INSERT INTO items (content) VALUES (?)", (_encode(content).decode(),)
        )
        return Response(_encode({"id": cursor.lastrowid}), media_type="application/json")

    return Starlette(routes=[Route("/", get, methods=["GET"]), Route("/", post, methods=["POST"])])


async def _serve(socket: str, database: str, ready: int) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(database), uds=socket, log_level="warning", access_log=False, lifespan="off"
        )
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    os.write(ready, b"ready\n")
    await serving


def main() -> None:
    """Serve until TERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--ready-fd", type=int, required=True)
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options.socket, options.database, options.ready_fd))


if __name__ == "__main__":
    main()
