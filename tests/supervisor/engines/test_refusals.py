from __future__ import annotations

import pytest

from lading.core.errors import Failure
from lading.supervisor.engines import crun, docker
from lading.supervisor.engines.refusals import image_refusal, load_refusal


@pytest.mark.parametrize(
    "said",
    [
        "unable to find user ghost: no matching entries in passwd file",
        "unable to find user exec: no matching entries in passwd file",
        "preparing container 1f for attach: unable to find group staff: no matching entries in "
        "group file",
        "uids and gids must be in range 0-2147483647",
        "runc create failed: Cwd must be an absolute path: unknown",
        "mount `tmpfs` to `dev`: Not a directory",
        "create device `/dev/null`: Permission denied",
        'error mounting "/v" to rootfs at "/proc": it cannot be mounted because it is inside /proc',
        "container create: invalid signal: SIGFOO",
        'environment variable name can\'t be empty: "=x": unknown',
    ],
)
def test_what_is_the_image_s_is_refused_for_good(said: str) -> None:
    assert crun.failure(said).failure is Failure.IMAGE
    assert docker.start_failure(said).failure is Failure.IMAGE
    refused = image_refusal(f"docker cannot create the container: {said}")
    assert refused is not None
    assert refused.failure is Failure.IMAGE


def test_what_is_not_the_image_s_is_none() -> None:
    for said in ("cannot allocate memory", "no space left on device", "permission denied"):
        assert image_refusal(said) is None
        assert crun.failure(said).failure is Failure.NODE


def test_a_daemon_that_has_no_room_is_not_the_image_s_fault() -> None:
    assert load_refusal("write /var/x: no space left on device") is Failure.DISK
    assert load_refusal("archive/tar: invalid tar header") is Failure.IMAGE


def test_a_name_of_any_length_is_cut() -> None:
    said = f"unable to find user {'x' * 5000}: no matching entries in passwd file"
    for refused in (crun.failure(said), docker.start_failure(f"exec {said}")):
        assert len(refused.message) <= 300
        assert "unable to find user" in refused.message
