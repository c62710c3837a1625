from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bench.daemon_floor import floor_of


class Daemon:
    """A daemon whose containers end at once, with `code`."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        call = f"{request.method} {request.path.removeprefix('/v1.41/')}"
        self.calls.append(call)
        answers = {
            "GET /version": {"ApiVersion": "1.41"},
            "GET images/json": [{"Id": "0f"}],
            "GET containers/json": [],
            "POST containers/create": {"Id": "c"},
            "POST containers/c/wait": {"StatusCode": self.code},
        }
        return web.json_response(answers.get(call, {}))


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    made = Daemon()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    yield made
    await runner.cleanup()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called docker that writes down what it is told."""
    made, told = tmp_path / "bin" / "docker", tmp_path / "told"
    made.parent.mkdir()
    made.write_text(f'#!{shutil.which("sh")}\necho "$@" > {told}\n')
    made.chmod(0o755)
    monkeypatch.setenv("PATH", str(made.parent))
    return told


async def test_what_is_added_is_the_difference_of_the_medians(
    daemon: Daemon, program: Path, tmp_path: Path
) -> None:
    socket = str(tmp_path / "s")
    async with floor_of("docker", socket=socket, command=("date",)) as floor:
        for counted in (False, True, True):
            await floor.measure(counted=counted)
        ended, removed, ran, added = floor.figures([10.0, 10.0])
        late = floor.figures([0.05])[-1]
    assert daemon.calls.count("DELETE containers/c") == 3
    assert program.read_text().split() == [
        "--host", f"unix://{socket}", "run", "--rm", "--network", "none", "sha256:0f", "date",
    ]  # fmt: skip
    assert (ended.count, removed.count, ran.count) == (2, 2, 2)
    assert ended.p50 is not None
    assert added.p50 == pytest.approx(10_000 - ended.p50)
    assert (added.met, late.met) == (False, True)


async def test_a_container_that_fails_is_no_floor(daemon: Daemon, tmp_path: Path) -> None:
    daemon.code = 3
    async with floor_of("docker", socket=str(tmp_path / "s"), command=("date",)) as floor:
        with pytest.raises(RuntimeError, match="exit code 3"):
            await floor.measure(counted=True)
