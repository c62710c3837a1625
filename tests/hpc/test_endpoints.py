"""Every call, against a real daemon, and what is forbidden.

Source: docs/spec/hpc-daemon, section Forbidden behaviour.
"""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lading.core.protocols.daemon_http import MOST_PARTS
from lading.hpc.plan import make_ssh_keys
from tests.hpc_daemon import Rig
from tests.reality import need_root


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_parameters_reach_variables_shells_and_code(rig: Rig) -> None:
    (rig.home / ".bashrc").write_text("case $- in *i*) ;; *) return;; esac\n")
    rig.post(
        "/v1/code-configuration",
        {"codeParameters": [{"key": "STEPS", "value": 10}, {"key": "NAME", "value": "x"}]},
    )
    done = rig.post("/v1/code-parameters/", {"codeParameters": {"NAME": "it's $HOME"}})
    assert done.data == {"message": "parameter accepted", "parameters": ["NAME"]}
    variables = rig.root / "hpcaas/variables"
    assert (variables.read_text(), _mode(variables)) == (
        "STEPS=10\nNAME=x\nNAME=it's $HOME\n",
        0o666,
    )
    shell = subprocess.run(
        ["bash", "-c", f'. {rig.home}/.bashrc; echo "$STEPS $NAME $PARAM_NAME"'],
        capture_output=True,
        check=True,
    )
    assert shell.stdout == b"10 it's $HOME it's $HOME\n"
    rig.code('echo "$STEPS $NAME ${AUTHORIZATION:-none} ${TLS_PRIVATE_KEY:-none}"')
    rig.start()
    rig.reach(codeStatus="Stopped")
    assert rig.call("GET", "/v1/logs/stdout").body == b"10 it's $HOME none none\n"


def test_files_are_stored_for_everybody(rig: Rig) -> None:
    big = bytes(range(256)) * 8192
    reply = rig.upload("/v1/code-configuration", {"mesh.dat": big, "empty": b""})
    place = rig.root / "hpcaas/files/mesh.dat"
    assert (place.read_bytes() == big, _mode(place)) == (True, 0o666)
    assert reply.data["files"][0] == {
        "name": "mesh.dat", "path": "/hpcaas/files/mesh.dat", "size": len(big),
        "sha256": hashlib.sha256(big).hexdigest(),
    }  # fmt: skip
    assert rig.upload("/v1/code-parameter-file", {"mesh.dat": b"new"}).said == "success"
    assert place.read_bytes() == b"new"


def test_a_large_file_is_searched_piece_by_piece(rig: Rig) -> None:
    """Boundaries stand across the ends of pieces of a MiB, of which the daemon has one in
    memory.
    """
    files = {
        "long": bytes(5 << 20),
        "crossing": b"-" * ((1 << 20) - 150),
        "last": b"\r\n--=b\r\n" * 200_000,
    }
    assert rig.upload("/v1/code-configuration", files).said == "success"
    for name, content in files.items():
        assert (rig.root / "hpcaas/files" / name).read_bytes() == content


def test_a_form_has_an_end(rig: Rig) -> None:
    many = {f"f{number}": b"" for number in range(MOST_PARTS + 1)}
    assert "more than" in rig.upload("/v1/code-configuration", many).data["message"]
    assert list((rig.root / "hpcaas/files").iterdir()) == []
    secret = rig.upload("/v1/daemon-configuration", {"sshPrivateKey": bytes(2 << 20)})
    assert secret.data["message"] == "sshPrivateKey is longer than 1048576 bytes"


_AS_NOBODY = """
import os, sys
os.chroot(sys.argv[1])
os.chdir("/")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for path in (
    "/hpcaas/variables", "/hpcaas/files/mesh",
    "/hpcaas/runtime/parameters", "/hpcaas/parameters/files/mesh",
):
    with open(path, "a+") as file:
        file.write("nobody=1\\n")
        file.seek(0)
        print(path, len(file.read()))
for path in ("/hpcaas/runtime/hostfile", "/hpcaas/runtime/config.json"):
    with open(path) as file:
        print(path, len(file.read()) > 0)
with open("/hpcaas/results/of-nobody", "w") as file:
    file.write("result")
for path in ("/hpcaas/daemon/state.json", "/root/.ssh/private_key"):
    try:
        open(path)
    except PermissionError:
        print(path, "is private")
for path in ("/hpcaas/files/mesh", "/hpcaas/results/of-root"):
    try:
        os.unlink(path)
    except PermissionError:
        print(path, "stays")
sys.stdout.flush()
# Nothing of the interpreter's own is written at its end: this user may not, here.
os._exit(0)
"""


def test_another_user_reads_and_writes_what_is_open_to_all(rig: Rig) -> None:
    """The daemon's own umask closed the directories that these files are in."""
    need_root()
    rig.root.chmod(0o755)
    rig.prepare()
    rig.post("/v1/code-configuration", {"codeParameters": {"A": 1}})
    rig.upload("/v1/code-configuration", {"mesh": b"m"})
    (rig.root / "hpcaas/results/of-root").touch()
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, rig.root], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        [
            "/hpcaas/variables 13",
            "/hpcaas/files/mesh 10",
            "/hpcaas/runtime/parameters 13",
            "/hpcaas/parameters/files/mesh 19",
            "/hpcaas/runtime/hostfile True",
            "/hpcaas/runtime/config.json True",
            "/hpcaas/daemon/state.json is private",
            "/root/.ssh/private_key is private",
            "/hpcaas/files/mesh stays",
            "/hpcaas/results/of-root stays",
        ],
    )
    assert (rig.root / "hpcaas/results/of-nobody").read_text() == "result"


def test_files_stay_where_they_belong(rig: Rig) -> None:
    for name in ("../../root/.bashrc", "..", "a/b"):
        assert rig.upload("/v1/code-configuration", {"good": b"1", name: b"2"}).said == "fail"
    assert list((rig.root / "hpcaas/files").iterdir()) == []


def test_the_cluster_is_written_down(rig: Rig) -> None:
    """An earlier daemon cut IPv6 addresses at their first colon."""
    keys = make_ssh_keys()
    reply = rig.configure(
        worldRank=0, worldSize=2, sshAddresses={"0": "10.0.0.1:22", "1": "[fd00::2]:2022"},
        sshPrivateKey=keys.private, sshPublicKey=keys.public, slots=2, nonsense=True,
    )  # fmt: skip
    assert reply.data["ignored"] == ["nonsense"]
    ssh = rig.home / ".ssh"
    assert [_mode(ssh), _mode(ssh / "private_key"), _mode(ssh / "config")] == [0o700, 0o600, 0o600]
    assert (ssh / "authorized_keys").read_text() == keys.public
    shown = subprocess.run(
        ["ssh", "-G", "-F", ssh / "config", "container_1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"hostname fd00::2", "port 2022", "stricthostkeychecking false"} <= set(
        shown.stdout.splitlines()
    )
    assert (
        rig.root / "hpcaas/runtime/hostfile"
    ).read_text() == "container-0 slots=2\ncontainer-1 slots=2\n"
    assert json.loads((rig.root / "hpcaas/runtime/config.json").read_text())["WORLD_SIZE"] == 2


def test_settings_may_come_as_a_form(rig: Rig) -> None:
    keys = make_ssh_keys()
    form = {
        "sshPrivateKey": keys.private.encode(),
        "worldRank": b"3",
        "clusterIPs": b'["10.0.0.1"]',
    }
    assert rig.upload("/v1/daemon-configuration", form).data["accepted"] == [
        "sshPrivateKey",
        "worldRank",
        "sshAddresses",
    ]
    assert rig.upload("/v1/daemon-configuration", {"worldRank": b"\xff"}).said == "fail"
    assert rig.upload("/v1/daemon-configuration", {}).said == "fail"
    assert rig.upload("/v1/code-configuration", {}).said == "fail"


def test_hosts_are_added_to_those_there_are(rig: Rig) -> None:
    (rig.root / "etc").mkdir()
    (rig.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    rig.configure(clusterIPs=["10.0.0.1"])
    rig.configure(clusterIPs=["10.0.0.2"])
    text = (rig.root / "etc/hosts").read_text()
    assert text.endswith("127.0.0.1 localhost\n")
    assert text.count("container_0") == 1


def test_a_partial_update_keeps_the_rest_and_the_door_open(rig: Rig) -> None:
    """An earlier daemon forgot the authorization and locked the caller out."""
    rig.configure(worldSize=4)
    assert (
        rig.post("/v1/update/", {"daemonParameters": {"worldRank": 1, "authorizationKey": ""}}).said
        == "success"
    )
    assert rig.query()["ranks"] == {"worldRank": 1, "worldSize": 4}


def test_the_names_that_others_gave_are_taken(rig: Rig) -> None:
    """Both paths take daemonParameters; an update may be the parameters themselves."""
    sent = {"daemonParameters": [{"key": "worldSize", "value": 3}]}
    assert rig.post("/v1/code-configuration", sent).data == {
        "message": "daemon updated", "accepted": ["worldSize"], "ignored": [],
    }  # fmt: skip
    assert rig.post("/v1/update", {"worldRank": 2, "authorizationKey": "x"}).data["ignored"] == [
        "authorizationKey"
    ]
    assert rig.query()["ranks"] == {"worldRank": 2, "worldSize": 3}
    rig.code("echo named", name="hpcaas/code/solver")
    assert rig.post("/v1/code-name/", {"codeName": "solver"}).data == {"message": "name accepted"}
    for wrong in ({}, {"codeName": 3}, {"codeName": "../x"}, [1]):
        assert rig.post("/v1/code-name", wrong).said == "fail"
    rig.start()
    rig.reach(codeStatus="Stopped")
    assert rig.call("GET", "/v1/logs/stdout").body == b"named\n"
    assert rig.post("/v1/code-name", {"codeName": "other"}).said == "fail"


def test_no_answer_and_no_file_of_others_has_a_secret(rig: Rig) -> None:
    """An earlier daemon's state had the keys, and everybody could write it and the log."""
    keys = make_ssh_keys()
    rig.configure(sshPrivateKey=keys.private, resultsUrl="https://s3/b/k?X-Amz-Signature=topsecret")
    said = rig.call("GET", "/v1/state/").body + rig.call("GET", "/v1/query").body
    assert b"topsecret" not in said
    assert b"PRIVATE" not in said
    assert rig.identity.authorization.encode() not in said
    own = [_mode(one) for one in rig.own.iterdir()]
    assert own
    assert set(own) <= {0o600}
    assert _mode(rig.own) == 0o700
    assert "topsecret" not in (rig.own / "log.txt").read_text()


def test_a_body_that_breaks_the_schema_changes_nothing(rig: Rig) -> None:
    """An earlier daemon accepted such bodies, or ended, or went on after a refusal."""
    headers = {"Authorization": rig.identity.authorization, "Content-Type": "application/json"}
    wrong = b'{"codeParameters": 3, "daemonParameters": 3}'
    for path in ("/v1/code-configuration", "/v1/daemon-configuration", "/v1/command"):
        for body in (b"", b"{", b"null", b"[" * 100_000, wrong, b"\xff"):
            reply = rig.call("POST", path, body, headers)
            assert (reply.status, reply.said) == (200, "fail")
            assert (
                rig.call("POST", path, body, {**headers, "Content-Type": "text/csv"}).said == "fail"
            )
    assert rig.query()["codeStatus"] == "Waiting"
    assert not (rig.root / "hpcaas/variables").exists()


def test_one_wrong_value_and_none_is_taken(rig: Rig) -> None:
    assert rig.configure(worldSize=3, worldRank="x").said == "fail"
    assert rig.query()["ranks"]["worldSize"] is None


def test_a_parameter_that_no_program_can_be_started_with_is_refused(rig: Rig) -> None:
    long = rig.post("/v1/code-configuration", {"codeParameters": {"A": 1, "MESH": "x" * 200_000}})
    assert (long.said, long.data["message"]) == (
        "fail",
        "parameter MESH has 200000 bytes in its value, but an environment variable holds 131060; "
        "send it as a file, by multipart/form-data",
    )
    several = {f"P{number}": "x" * 100_000 for number in range(6)}
    assert (
        "send large ones as files"
        in rig.post("/v1/code-configuration", {"codeParameters": several}).data["message"]
    )
    assert not (rig.root / "hpcaas/variables").exists()
    assert (
        rig.post("/v1/code-configuration", {"codeParameters": {"MESH": "x" * 131_060}}).said
        == "success"
    )
    assert "200000 bytes" in rig.configure(codeArguments=["x" * 200_000]).data["message"]
    rig.code("echo ${#MESH} ${#PARAM_MESH}")
    assert rig.start().said == "success"
    rig.reach(codeStatus="Stopped")
    assert rig.call("GET", "/v1/logs/stdout").body == b"131060 131060\n"


def test_commands_may_be_spelled_both_ways(rig: Rig) -> None:
    rig.code("exit 0")
    rig.prepare()
    assert rig.post("/v1/command", {"command": {"value": "START"}}).said == "success"
    rig.reach(codeStatus="Stopped", resultStatus="Stopped")
    assert rig.command("dance").data["message"] == "need one of start, kill, upload"
    assert rig.command("upload").data == {"message": "upload started"}
    rig.reach(resultStatus="Stopped")
    assert rig.configure(worldRank=1).said == "fail"
    assert rig.configure(resultsDirectory="/mnt").said == "success"


def test_progress_comes_from_the_code(rig: Rig) -> None:
    rig.code(f"echo 40 > {rig.root}/hpcaas/updates/percentComplete; read x < {rig.root}/go")
    subprocess.run(["mkfifo", rig.root / "go"], check=True)
    assert rig.query()["percentComplete"] is None
    rig.start()
    rig.reach(percentComplete=40.0)
    (rig.root / "go").write_text("\n")
    rig.reach(percentComplete=100.0)


def test_progress_may_come_by_a_socket(rig: Rig) -> None:
    """Who waits for news hears of it."""
    known = rig.call("GET", "/v1/query").headers["etag"]
    waiting = {
        "Authorization": rig.identity.authorization,
        "If-None-Match": known,
        "Prefer": "wait=60",
    }
    with ThreadPoolExecutor(1) as pool:
        news = pool.submit(rig.call, "GET", "/v1/query", b"", waiting)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(rig.root / "hpcaas/updates/sock"))
            connection.sendall(b"12.5\n")
            assert news.result().data["percentComplete"] == 12.5


def test_logs_are_read_by_range(rig: Rig) -> None:
    rig.code("printf 0123456789")
    rig.start()
    rig.reach(codeStatus="Stopped")
    auth = {"Authorization": rig.identity.authorization}
    some = rig.call("GET", "/v1/logs/stdout", headers={**auth, "Range": "bytes=4-"})
    assert (some.status, some.body, some.headers["content-range"]) == (
        206,
        b"456789",
        "bytes 4-9/10",
    )
    assert rig.call("GET", "/v1/logs/stdout", headers={**auth, "Range": "bytes=11-"}).status == 416
    assert rig.call("GET", "/v1/logs/stdout", headers={**auth, "Range": "bytes=10-"}).body == b""
    assert rig.call("GET", "/v1/logs/stderr").body == b""


def test_heartbeats_beat_in_both_forms(rig: Rig) -> None:
    auth = {"Authorization": rig.identity.authorization}
    assert (
        rig.call("GET", "/v1/heartbeat")
        .data["time"]
        .startswith(
            rig.call(
                "GET", "/v1/heartbeat/", headers={**auth, "Accept": "text/plain"}
            ).body.decode()[:10]
        )
    )
    assert json.loads(rig.call("GET", "/v1/openapi.json").body)["openapi"].startswith("3.")
