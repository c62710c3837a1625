"""The daemon as a whole: its start, its restarts, its deliveries, its size."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.hpc.daemon import find_home, read_options
from tests.hpc_daemon import Rig, until
from tests.reality import need_ipv6
from tests.s3_service import make_bucket

ENVIRONMENT = {"TLS_PUBLIC_CERT": "c", "TLS_PRIVATE_KEY": "k", "AUTHORIZATION": "a"}


def test_options_come_from_the_environment() -> None:
    assert read_options([], ENVIRONMENT).port == 443
    assert read_options([], {**ENVIRONMENT, "HPCAAS_PORT": "8443"}).port == 8443
    assert read_options(["--port", "9"], {**ENVIRONMENT, "HPCAAS_PORT": "8443"}).port == 9
    assert read_options([], {**ENVIRONMENT, "HPCAAS_ALLOW_HTTP": "1"}).allow_http


@pytest.mark.parametrize(
    "environment", [{}, {**ENVIRONMENT, "AUTHORIZATION": ""}, {**ENVIRONMENT, "HPCAAS_PORT": "x"}]
)
def test_without_secrets_or_port_it_does_not_start(environment: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        read_options([], environment)


def test_the_home_directory_is_that_of_the_user_or_of_the_environment() -> None:
    assert find_home(0, {"HOME": "/elsewhere"}) == "/root"
    assert find_home(54321, {"HOME": "/elsewhere"}) == "/elsewhere"
    for wrong in ({}, {"HOME": "here"}):
        with pytest.raises(
            Invalid, match="user 54321 has no home directory: name one in /etc/passwd or in HOME"
        ):
            find_home(54321, wrong)


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    for more, code in ({}, 2), (ENVIRONMENT, 1):
        done = subprocess.run(
            [sys.executable, "-m", "lading.hpc.daemon", "--port", "0", "--root", tmp_path],
            env={**os.environ, **more}, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert (done.returncode, done.stderr.count("\n"), done.stderr[:8]) == (code, 1, "lading: ")


def test_it_imports_the_standard_library_alone() -> None:
    """So that it fits in any image with a Python, and stays small."""
    program = "import sys; had = set(sys.modules); import lading.hpc.daemon; "
    program += "names = {name.partition('.')[0] for name in set(sys.modules) - had}; "
    program += "print(*names - set(sys.stdlib_module_names))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {name for name in found if not name.startswith(("_", "coverage", "$coverage"))} == {
        "lading"
    }


def test_settings_and_parameters_survive_kill_9(rig: Rig) -> None:
    rig.post("/v1/code-configuration", {"codeParameters": {"A": 1}})
    rig.configure(worldRank=1, worldSize=2, childFailurePolicy="direct")
    rig.kill()
    rig.up()
    assert rig.query()["ranks"] == {"worldRank": 1, "worldSize": 2}
    rig.code("sh -c 'exit 3'; echo $A")
    rig.start()
    rig.reach(codeStatus="Stopped")
    assert rig.call("GET", "/v1/logs/stdout").body == b"1\n"


def test_results_are_moved_when_the_code_has_ended(rig: Rig) -> None:
    rig.code(f"echo r > {rig.root}/hpcaas/results/r; exit 1")
    rig.configure(resultsDirectory="/mnt/out")
    rig.start()
    assert rig.reach(resultStatus="Stopped")["results"] == [{"directory": "/mnt/out", "entries": 1}]
    assert (rig.root / "mnt/out/r").read_text() == "r\n"
    assert [(rig.root / one).stat().st_mode & 0o777 for one in ("mnt", "mnt/out")] == [0o755, 0o755]


def test_results_are_uploaded_and_the_address_stays_a_secret(idle: Rig) -> None:
    bucket = make_bucket()
    client = bucket.service.client()
    place = {"Bucket": bucket.name, "Key": "rank-0.tar.gz"}
    url = client.generate_presigned_url("put_object", Params=place, ExpiresIn=600)
    idle.environment = {"HPCAAS_ALLOW_HTTP": "1"}
    idle.up()
    idle.code(f"echo r > {idle.root}/hpcaas/results/r; env")
    idle.configure(resultsUrl=url)
    idle.start()
    idle.reach(codeStatus="Stopped", resultStatus="Stopped")
    with tarfile.open(fileobj=io.BytesIO(client.get_object(**place)["Body"].read())) as archive:
        assert archive.getnames() == ["r"]
    secret = url.partition("?")[2].encode()
    assert secret
    said = [idle.call("GET", path).body for path in ("/v1/query", "/v1/state", "/v1/logs/stdout")]
    # What it must remember is in one file, which root alone reads.
    files = [one for one in idle.root.rglob("*") if one.is_file()]
    assert [one.name for one in files if secret in one.read_bytes()] == ["state.json"]
    assert not any(secret in one for one in said)


def test_it_listens_on_ipv6(idle: Rig) -> None:
    need_ipv6()
    idle.host = "::1"
    idle.up()
    assert idle.query()["codeStatus"] == "Waiting"


def test_a_delivery_that_fails_may_be_tried_again(rig: Rig) -> None:
    (rig.root / "blocked").touch()
    rig.code("exit 0")
    rig.configure(resultsDirectory="/blocked")
    rig.start()
    assert (
        "FileExistsError"
        in rig.reach(resultStatus="Error", codeStatus="Stopped")["results"][0]["error"]
    )
    (rig.root / "blocked").unlink()
    rig.command("upload")
    rig.reach(resultStatus="Stopped")


def test_a_delivery_that_was_interrupted_is_taken_up(rig: Rig) -> None:
    rig.code("exit 0")
    rig.start()
    rig.reach(resultStatus="Stopped")
    rig.kill()
    state = rig.own / "state.json"
    state.write_text(state.read_text().replace('"result": "Stopped"', '"result": "Uploading"'))
    rig.up()
    rig.reach(resultStatus="Stopped")


def test_a_file_system_that_fails_is_told(rig: Rig) -> None:
    (rig.root / "shared").mkdir()
    rig.configure(sharedFileSystem=["/shared"])
    rig.kill()
    rig.up()
    assert rig.query()["containerStatus"] == "Running"
    (rig.root / "shared").rmdir()
    rig.kill()
    rig.up()
    rig.reach(containerStatus="FSError")
    rig.code("exit 0")
    refused = rig.start()
    assert refused.said == "error"
    told = (
        "the code cannot be started in the state FSError: "
        f"{rig.root}/shared: No such file or directory"
    )
    assert refused.data["message"] == told
    assert rig.query()["codeStatus"] == "Waiting"
    (rig.root / "shared").mkdir()
    rig.reach(containerStatus="Running")
    started = rig.start()
    assert started.said == "success", started.data


def test_it_ends_when_told_and_the_code_goes_on(rig: Rig) -> None:
    rig.code("echo $$; sleep 60")
    rig.start()
    until(lambda: rig.call("GET", "/v1/logs/stdout").body != b"")
    pid = int((rig.own / "stdout.txt").read_text())
    assert rig.process
    rig.process.send_signal(signal.SIGTERM)
    assert rig.process.wait(10) == 0
    os.killpg(pid, signal.SIGKILL)


def test_it_is_small_and_quick(idle: Rig) -> None:
    began = time.monotonic()
    idle.up()
    assert idle.process
    status = Path(f"/proc/{idle.process.pid}/status").read_text()
    resident = int(status.partition("VmRSS:")[2].split()[0])
    # Measured in `python -m bench hpc`; here with room for coverage and busy machines.
    assert resident < 80_000
    assert time.monotonic() - began < 20
