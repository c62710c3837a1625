"""Container requests from options; what reaches the server is tested in test_run.py."""

from __future__ import annotations

from lading.cli.running.submission import RequestSpec, request_body

_PDH = "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"


def test_the_least_that_is_asked_for() -> None:
    assert request_body(RequestSpec(command=("true",)), image="i", mounts={}) == {
        "state": "Committed",
        "name": None,
        "command": ["true"],
        "container_image": "i",
        "cwd": "/out",
        "environment": {},
        "mounts": {"/out": {"kind": "tmp"}},
        "output_path": "/out",
        "output_glob": [],
        "runtime_constraints": {"vcpus": 1, "ram": 256 << 20},
        "priority": 500,
        "use_existing": True,
    }


def test_resources_are_matched_only_if_asked() -> None:
    plain, asked = (
        request_body(RequestSpec(command=("true",), match_resources=one), image="x", mounts={})
        for one in (False, True)
    )
    assert ("match_resources" in plain, asked["match_resources"]) == (False, True)


def test_rules_for_retries_are_scheduling_parameters() -> None:
    spec = RequestSpec(command=("true",), retry=(("oom", {"limit": 3, "factor": 2.0}),))
    body = request_body(spec, image="x", mounts={})
    assert body["scheduling_parameters"] == {"retry": {"oom": {"limit": 3, "factor": 2.0}}}
