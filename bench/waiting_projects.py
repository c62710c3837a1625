"""Data directories with a project of very many requests that wait, for measurements of calls that
change all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.queue import DECLINED, postgres_databases, postgres_site, sqlite_site
from bench.requests import submit
from bench.service import add_image, connected, serving
from lading.client.api import ApiClient

_NAME: Final = "long queue"


@contextlib.contextmanager
def waiting_project(database: str, waiting: int, python: str) -> Iterator[Path]:
    """A data directory whose project has `waiting` requests, of which nothing runs any.

    `database` is "sqlite" or "postgresql"; `python` is the interpreter of the environment whose
    Lading makes the first request.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lading-bench-")))
        data = folder / "data"
        if database == "sqlite":
            site = sqlite_site(data)
        else:
            server = stack.enter_context(postgres_databases(("lading",)))
            site = postgres_site(data, server.connection("lading"))
        with serving(data, config=json.dumps(site.config), python=python) as environment:
            image = add_image(environment, python=python)
            template = asyncio.run(_submit(environment, image))
        site.copy(template, waiting)
        (data / "config.yml").write_text(json.dumps({**site.config, **DECLINED}))
        yield data
        shutil.rmtree(data, ignore_errors=True)


async def find_project(client: ApiClient) -> dict[str, Any]:
    """The project of a data directory of `waiting_project`."""
    (project,) = await client.list("groups", filters=[["name", "=", _NAME]])
    return project


async def _submit(environment: dict[str, str], image: str) -> str:
    async with connected(environment) as client:
        project = await client.create("groups", {"group_class": "project", "name": _NAME})
        return await submit(client, image, ["true"], priority=0, owner_uuid=project["uuid"])
