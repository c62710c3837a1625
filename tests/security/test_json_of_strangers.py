"""JSON of strangers: depth, numbers, keys and characters without measure, to every route of the
API, in its body and in its parameters.
"""

from __future__ import annotations

import time

import pytest

from lading.api.routes import Routes
from lading.testing.world import World
from tests.api.conftest import it

__all__ = ["it"]

DEEP = 30_000
DOCUMENTS: dict[str, bytes] = {
    "deep lists": b"[" * DEEP,
    "deep lists that end": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep inside": b'{"filters":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep record": b'{"properties":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
    "large number": b'{"limit":' + b"9" * 60_000 + b"}",
    "large exponent": b'{"limit":1e99999999}',
    "small exponent": b'{"limit":1e-99999999}',
    "no number": b'{"limit":NaN}',
    "surrogate": b'{"name":"\\ud800"}',
    "nul": b'{"name":"\\u0000"}',
    "key with nul": b'{"\\u0000":1}',
    "no text": b'{"name":"\xff\xfe"}',
    "utf-16": '{"name":"a"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"name":"a"}',
    "many keys": b"{" + b",".join(b'"%d":1' % n for n in range(6000)) + b"}",
    "one key often": b"{" + b",".join([b'"name":"a"'] * 6000) + b"}",
    "text": b'"' + b"a" * 60_000 + b'"',
    "number": b"1",
    "null": b"null",
    "list": b"[1]",
    "half": b'{"name":"a',
    "twice": b'{"name":"a"}{"name":"b"}',
    "comment": b'{"name":"a"/*x*/}',
}
PARAMETERS = ("filters", "order", "select", "limit", "offset", "where", "include", "count", "uuids")
VALUES = (
    "[" * 3000,
    "[" * 3000 + "]" * 3000, '{"a":' * 2000, "9" * 4000, "-1", "NaN", "1e99", '"\\ud800"',
    "\0", '[["uuid","=","\\u0000"]]', "[[1,2,3]]", '[["uuid"]]', '[["uuid","in",null]]', "[null]",
    '[["properties.' + "a." * 1000 + 'b","=",1]]', '[["name","ilike","' + "%a" * 2000 + '"]]',
    '[["name","in",[' + ",".join(['"a"'] * 1000) + "]]]", "{}", "true", "",
)  # fmt: skip


@pytest.fixture
def paths() -> list[tuple[str, str]]:
    """Methods and paths of all routes, with a uuid that nothing has."""
    uuid = "zzzzz-xxxxx-000000000000000"
    return [
        (method, path.replace("{uuid}", uuid).replace("{rest}", "x"))
        for method, path, _ in Routes().listed()
    ]


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.attack("sends every route a document that cannot be read, or has no end")
async def test_bodies(it: World, paths: list[tuple[str, str]], name: str) -> None:
    for method, path in paths:
        if method in ("GET", "HEAD") or "events" in path:
            continue
        began = time.process_time()
        answer = await it.request(
            method, path, raw=DOCUMENTS[name], headers={"content-type": "application/json"}
        )
        assert answer.status < 500, (method, path, answer.status, answer.body[:200])
        assert time.process_time() - began < 1, (method, path)


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.attack("names values of parameters that cannot be read, or have no end")
async def test_parameters(it: World, paths: list[tuple[str, str]], parameter: str) -> None:
    ada = await it.user("ada")
    for method, path in paths:
        if method != "GET" or "events" in path:
            continue
        for value in VALUES:
            answer = await it.request(method, path, token=ada, params={parameter: value})
            assert answer.status < 500, (path, value[:60], answer.status, answer.body[:200])
