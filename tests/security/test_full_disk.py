"""An ordinary user fills the disk of the server, by each call that stores something; others go on
writing records, and what is refused is refused in words.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from hashlib import md5

import pytest

from tests.security.small_disk import Writer, cluster_on, small_disk
from tests.security.stranger import Answer, Stranger

pytestmark = pytest.mark.system
MOST = 400
"""Calls of one kind: each kind alone would fill the disk of 220 MiB."""


def _blocks(site: Stranger, token: str) -> Iterator[Answer]:
    while True:
        data = os.urandom(4 << 20)
        yield site.send("PUT", f"/{md5(data).hexdigest()}", data, token=token)


def _rows(site: Stranger, token: str) -> Iterator[Answer]:
    text = os.urandom(1 << 20).hex()
    while True:
        row = {"log": {"event_type": "x", "properties": {"text": text}}}
        yield site.call("POST", "logs", row, token=token)


def _records(site: Stranger, token: str) -> Iterator[Answer]:
    text = os.urandom(1 << 20).hex()
    while True:
        body = {"group": {"group_class": "project", "properties": {"text": text}}}
        yield site.call("POST", "groups", body, token=token)


def _versions(site: Stranger, token: str) -> Iterator[Answer]:
    made = site.call("POST", "collections", {"manifest_text": ""}, token=token)
    uuid = made.json.get("uuid", "")
    while True:
        text = os.urandom(1 << 20).hex()
        body = {"properties": {"text": text}, "preserve_version": True}
        yield site.call("PUT", f"collections/{uuid}", body, token=token) if uuid else made


KINDS: dict[str, Callable[[Stranger, str], Iterator[Answer]]] = {
    "blocks": _blocks,
    "rows of the log": _rows,
    "records": _records,
    "versions": _versions,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.attack("fills the disk of the server by calls that each user may make")
def test_others_go_on(kind: str) -> None:
    with small_disk(size=220) as disk, cluster_on(disk) as cluster:
        site = Stranger(cluster)
        token = site.token(owner=site.user("mallory"))
        writer, statuses = Writer(cluster), []
        with writer.at_work():
            for number, answer in enumerate(KINDS[kind](site, token)):
                statuses.append(answer.status)
                if answer.status != 200 or number >= MOST:
                    break
            free = shutil.disk_usage(cluster.data).free
            # Again and again, as a program without end would.
            for _, answer in zip(range(20), KINDS[kind](site, token), strict=False):
                statuses.append(answer.status)
        assert set(statuses) <= {200, 413, 422, 503, 507}, set(statuses)
        assert statuses[-1] != 200, "it was never refused"
        assert free > 1 << 20
        assert set(writer.answers) == {200}, set(writer.answers)
        assert writer.slowest < 10
        assert json.loads(cluster.lading("request", "list", "--json").stdout) == []
