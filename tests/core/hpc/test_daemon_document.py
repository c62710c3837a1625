"""The daemon's answers and its OpenAPI document."""

from __future__ import annotations

import json

from lading.core.hpc.daemon_document import ROUTES, DaemonCall, DocumentStatus, jsend, openapi


def test_answers_are_jsend() -> None:
    assert json.loads(jsend(DocumentStatus.FAIL, {"message": "no"})) == {
        "status": "fail",
        "data": {"message": "no"},
    }


def test_every_path_is_in_the_document() -> None:
    document = openapi("1")
    assert set(document["paths"]) == set(ROUTES)
    for path, route in ROUTES.items():
        operation = document["paths"][path][route.method.lower()]
        assert {"401", "404", "405"} <= set(operation["responses"])
        assert ("requestBody" in operation) == (route.method == "POST")
    assert {route.call for route in ROUTES.values()} == set(DaemonCall)
    json.dumps(document)
