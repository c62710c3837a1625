"""Which kind of image a file, directory or name is."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lading.client.images.from_host import SourceHost
from lading.client.images.sources import docker_socket, normalise, normalise_programs, read
from lading.core.errors import Invalid, Malformed, NotFound
from lading.testing.asgi import serving
from tests.client.images.images_on_disk import (
    LAYERS,
    config_of,
    digest,
    oci_files,
    saved_files,
    tar_of,
    write_files,
    write_tar,
)

_ROOT: dict[str, bytes | None] = {"bin/sh": b"#!", "etc/motd": b"hi"}


@pytest.mark.parametrize("files", [saved_files(*LAYERS), oci_files(*LAYERS), _ROOT])
@pytest.mark.parametrize("write", [write_files, write_tar])
def test_content_tells_what_it_is(
    tmp_path: Path,
    files: dict[str, bytes | None],
    write: Callable[[Path, dict[str, bytes | None]], Path],
) -> None:
    parts = read(write(tmp_path / "x", files), tmp_path, architecture="amd64")
    assert len(parts.layers) == (1 if files is _ROOT else 2)


def test_a_compressed_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(tar_of(saved_files(*LAYERS))))
    assert len(read(path, tmp_path, architecture="amd64").layers) == 2


@pytest.mark.parametrize("write", [write_files, write_tar])
def test_what_is_no_image_is_said_so(
    tmp_path: Path, write: Callable[[Path, dict[str, bytes | None]], Path]
) -> None:
    with pytest.raises(Invalid, match="neither an image nor a root file system"):
        read(write(tmp_path / "x", {"a": b"b"}), tmp_path, architecture="amd64")


async def test_a_path_becomes_the_normal_form(tmp_path: Path) -> None:
    config = config_of(*LAYERS)
    image = await normalise(
        str(write_tar(tmp_path / "x", saved_files(*LAYERS, config=config))), tmp_path
    )
    assert image.digest == digest(config)
    (tmp_path / "y").write_text("y")
    with pytest.raises(Malformed, match="neither an image nor a tar archive"):
        await normalise(str(tmp_path / "y"), tmp_path)


async def test_programs_become_the_normal_form(tmp_path: Path) -> None:
    host = SourceHost(
        search=(),
        linker=lambda _loader, _path: pytest.fail("nothing to link"),
        architecture="amd64",
    )
    with pytest.raises(Invalid, match="is not on PATH"):
        await normalise_programs(["true"], tmp_path, host=host)


async def test_an_image_of_the_local_docker(tmp_path: Path) -> None:
    asked = []

    async def docker(scope: dict[str, object], receive: object, send: object) -> None:
        request = Request(scope, receive)  # type: ignore[arg-type]
        path = request.url.path.partition("/images/")[2]
        asked.append(path)
        answer: Response = JSONResponse({"message": "no such image"}, 404)
        if request.url.path.endswith("/version"):
            answer = JSONResponse({"ApiVersion": "1.41"})
        elif path == "tools:latest/json":
            answer = JSONResponse({"Id": "sha256:1"})
        elif path == "tools:latest/get":
            answer = Response(tar_of(saved_files(*LAYERS, tags=["tools:latest"])))
        await answer(scope, receive, send)  # type: ignore[arg-type]

    socket = tmp_path / "docker.sock"
    async with serving(docker, uds=str(socket)):  # type: ignore[arg-type]
        image = await normalise("tools", tmp_path, socket=socket)
        with pytest.raises(
            NotFound,
            match="other:1: no such file or directory, and Docker has no image of that name",
        ):
            await normalise("other:1", tmp_path, socket=socket)
    assert image.names == ("tools:latest",)
    assert "tools:latest/get" in asked


async def test_no_docker(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="x: no such file or directory, and no Docker at"):
        await normalise("x", tmp_path, socket=tmp_path / "absent")
    (tmp_path / "dead").write_text("")
    with pytest.raises(NotFound, match="does not answer"):
        await normalise("x", tmp_path, socket=tmp_path / "dead")


def test_where_docker_listens() -> None:
    assert str(docker_socket({})) == "/var/run/docker.sock"
    assert str(docker_socket({"DOCKER_HOST": "tcp://h:1"})) == "/var/run/docker.sock"
    assert (
        str(docker_socket({"DOCKER_HOST": "unix:///run/user/1/docker.sock"}))
        == "/run/user/1/docker.sock"
    )
