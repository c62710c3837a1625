"""Submission of runs: inputs, and requests in few calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lading
from lading.client.transport import HttpTransport, Response
from lading.core.errors import Invalid, TooLarge
from tests.cli.site import Site


def test_a_run_that_cannot_be_sent_leaves_the_others_of_its_call_alone(
    site: lading.Site, image: str
) -> None:
    odd = {"kind": "text", "content": "x"}
    broken = site.run(["broken"], image=image, inputs={"/in": _Late(odd)})
    runs = [site.run(["good", str(number)], image=image) for number in range(3)]
    follower = site.run(["follower"], image=image, after=broken)
    assert len({run.uuid for run in runs}) == 3
    for run in (broken, follower):
        with pytest.raises(Invalid, match="not UTF-8"):
            run.result(30)
    for run in runs:
        run.cancel()


class _Late(Mapping[str, str]):
    """A mount that becomes bad after it was checked, as that of a program that changes it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts, self.reads = texts, 0

    def __getitem__(self, key: str) -> str:
        return self.texts[key]

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        if self.reads > 1:
            self.texts = {**self.texts, "content": "\udcff"}
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def test_any_error_before_a_run_is_sent_ends_it(site: lading.Site, image: str) -> None:
    broken = _Broken({"kind": "text", "content": "x"})
    run = site.run(["x"], image=image, inputs={"/in": broken})
    with pytest.raises(RuntimeError, match="the program's own fault"):
        run.result(30)


class _Broken(_Late):
    """A mount whose own type fails when it is read again."""

    def __iter__(self) -> Iterator[str]:
        if self.reads:
            raise RuntimeError("the program's own fault")
        return super().__iter__()


def test_a_call_that_is_too_large_is_sent_in_smaller_ones(stage: Site, image: str) -> None:
    transport = Narrow(unix_socket=stage.socket)
    with lading.Site(transport, stage.world.admin) as site:
        first = site.run(["first"], image=image)
        runs = [first, *(site.run(["n", str(n)], image=image, after=first) for n in range(4))]
        large = site.run(["large", "x" * 5000], image=image)
        assert len({run.uuid for run in runs}) == 5
        with pytest.raises(TooLarge):
            large.result(30)
        first.cancel()
    assert transport.refused > 1


class Narrow(HttpTransport):
    """Refuses bodies of more than 4 KB, as a server with a low limit."""

    refused = 0

    async def request(self, method: str, path: str, **options: Any) -> Response:
        if len(options.get("body") or b"") > 4000:
            self.refused += 1
            return Response(413, {}, b'{"errors": ["too large"]}')
        return await super().request(method, path, **options)


def test_many_are_submitted_by_few_calls(stage: Site, site: lading.Site, image: str) -> None:
    began = time.monotonic()
    runs = [site.run(["many", str(number)], image=image) for number in range(50)]
    assert len({run.uuid for run in runs}) == 50
    # 50 calls, one after the other, take ten times as long as this on any machine.
    assert time.monotonic() - began < 30
    for run in runs:
        run.cancel()


def test_the_first_run_does_not_wait_for_the_inputs_of_later_ones(
    stage: Site, image: str, tmp_path: Path
) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}").write_text(f"first {number}")
    transport = Recording(unix_socket=stage.socket)
    with lading.Site(transport, stage.world.admin) as site:
        inputs = {"/a": tmp_path / "00", "/b": tmp_path / "01"}
        first = site.run(["index"], image=image, inputs=inputs)
        runs = site.map(
            ["count"],
            sorted(tmp_path.iterdir())[2:],
            image=image,
            inputs={"/in": "{}", "/index": first.output["x"]},
        )
        for run in (first, *runs):
            assert run.uuid
        first.cancel()
    assert transport.paths.count("collections") == 60
    submitted = transport.paths.index("container_requests/batch")
    assert transport.paths[:submitted].count("collections") < 60


class Recording(HttpTransport):
    """Notes the paths of all posts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.paths: list[str] = []

    async def request(self, method: str, path: str, **options: Any) -> Response:
        if method == "POST":
            self.paths.append(path.partition("/v1/")[2])
        return await super().request(method, path, **options)


def test_a_small_input_needs_no_temporary_directory(
    site: lading.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("small")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert site.put(tmp_path / "a.txt")


def test_a_long_manifest_is_stored(stage: Site, site: lading.Site, tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number:0200}").write_text("x")
    found = stage.call(stage.world.ok("GET", f"collections/{site.put(tmp_path)}"))
    assert found["manifest_text"].count("0:1:") + found["manifest_text"].count(":1:0") > 400
