"""What openapi-test-runner checks of TES 1.0 and 1.1, in 23 checks of the same names, on a real
server without credentials. Every answer is validated by the OpenAPI document that the server
serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import requests

from tests.reality import need_program, need_root
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
RUN = {"image": "alpine", "command": ["echo", "hello"]}
S3_INPUT = {"url": "s3://my-object-store/file-1", "path": "/data/file1"}
S3_OUTPUT = {"url": "s3://my-object-store/outfile-1", "path": "/data/outfile"}


class Suite:
    """Calls of one version of TES, whose answers are validated."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(cluster.data / "tls.crt")
        self._url = f"https://{cluster.environment['ARVADOS_API_HOST']}{prefix}"
        self._paths = self._session.get(f"{self._url}/openapi.json", timeout=30).json()["paths"]

    def call(
        self, method: str, path: str, operation: str, *, status: int = 200, **more: Any
    ) -> Any:
        """The JSON of an answer, validated for an operation (`METHOD PATH` of the document)."""
        reply = self._session.request(method, self._url + path, timeout=60, **more)
        assert reply.status_code == status, reply.text
        described = self._paths[operation][method.lower()]["responses"][str(status)]
        found = reply.json()
        # Schemas of OpenAPI 3.0 are those of the fourth draft.
        schema = described["content"]["application/json"]["schema"]
        jsonschema.Draft4Validator(schema).validate(found)
        return found

    def create(self, *executors: dict[str, Any], status: int = 200, **more: Any) -> str:
        """Create a task; its id."""
        task = {"name": "CompTest", "executors": [*executors] or [RUN], **more}
        return str(self.call("POST", "/tasks", "/tasks", status=status, json=task).get("id"))

    def get(self, task: str, view: str = "MINIMAL") -> Any:
        """A task."""
        return self.call("GET", f"/tasks/{task}?view={view}", "/tasks/{id}")

    def find(self, **parameters: Any) -> Any:
        """A page of tasks."""
        return self.call("GET", "/tasks", "/tasks", params=parameters)

    def cancel(self, task: str) -> None:
        """Cancel a task."""
        assert self.call("POST", f"/tasks/{task}:cancel", "/tasks/{id}:cancel") == {}

    def until(self, task: str, *states: str) -> Any:
        """The task in one of these states, with everything."""
        deadline = time.monotonic() + 60
        while self.get(task)["state"] not in states:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return self.get(task, "FULL")


def create_task_ignore_error(suite: Suite) -> None:
    bad = {"image": "alpine", "command": ["ERROR"]}
    stops = suite.create({**bad, "ignore_error": False}, RUN)
    goes_on = suite.create({**bad, "ignore_error": True}, RUN)
    # Read once, as there: the answer waits for the end of a young task.
    assert len(suite.get(stops, "FULL")["logs"][0]["logs"]) == 1
    assert len(suite.get(goes_on, "FULL")["logs"][0]["logs"]) == 2


def filter_task_by_state(suite: Suite) -> None:
    suite.until(suite.create(), "COMPLETE")
    assert suite.find(state="COMPLETE")["tasks"][0]["state"] == "COMPLETE"
    assert suite.find(state="PAUSED")["tasks"] == []


def filter_task_by_name(suite: Suite) -> None:
    made = suite.create(name="e70dda48-ComplianceTest")
    suite.create(name="ComplianceTest-e70dda48")
    found = suite.find(name_prefix="e70dda48", view="BASIC")["tasks"]
    assert {one["name"] for one in found} == {"e70dda48-ComplianceTest"}
    assert found[0]["id"] == made


def filter_task_by_tag(suite: Suite) -> None:
    tags = {"foo": "bar", "baz": "bat", "lorem": "ipsum", "task": "create"}
    made = suite.create(tags=tags)
    for keys, values, count in (
        ([*tags], [*tags.values()], 1),
        (["foo", "lorem", "baz"], ["bar", "ipsum"], 1),
        (["foo", "lorem", "extra"], ["bar", "ipsum"], 0),
        (["lorem"], ["other"], 0),
        (["lorem"], [], 1),
    ):
        found = suite.find(view="BASIC", tag_key=keys, tag_value=values)["tasks"]
        assert [one["id"] for one in found[:1]] == [made] * count


def list_tasks_page_size(suite: Suite) -> None:
    for size in (1, 2):
        suite.create()
        assert len(suite.find(page_size=size)["tasks"]) == size


def list_tasks_page_token(suite: Suite) -> None:
    made = [suite.create() for _ in range(2)]
    first = suite.find(page_size=1)
    second = suite.find(page_size=1, page_token=first["next_page_token"])
    assert [first["tasks"][0]["id"], second["tasks"][0]["id"]] == made[::-1]


def cancel_task_functional(suite: Suite) -> None:
    made = suite.create({"image": "alpine", "command": ["sleep", "300"]})
    suite.cancel(made)
    suite.until(made, "CANCELED")


def service_info(suite: Suite) -> None:
    found = suite.call("GET", "/service-info", "/service-info")
    assert found["type"]["artifact"] == "tes"


def backend(suite: Suite, *, strict: bool, status: int = 200) -> None:
    parameters = {"VmSize": "Standard_D64_v3", "Caching": "ReadWrite"}
    resources = {"backend_parameters": parameters, "backend_parameters_strict": strict}
    suite.create(resources=resources, status=status)


CHECKS: dict[str, Callable[[Suite], object]] = {
    "cancel_task": lambda suite: suite.cancel(suite.create()),
    "cancel_task_functional": cancel_task_functional,
    "create_task": lambda suite: suite.create(),
    "create_task_backend_parameters": lambda suite: backend(suite, strict=False),
    "create_task_backend_parameters_negative": lambda suite: backend(
        suite, strict=True, status=400
    ),
    "create_task_functional": lambda suite: suite.until(suite.create(), "COMPLETE"),
    "create_task_ignore_error": create_task_ignore_error,
    "create_task_inputs": lambda suite: suite.create(inputs=[{**S3_INPUT, "type": "FILE"}]),
    "create_task_optional_filetype": lambda suite: suite.create(
        inputs=[S3_INPUT], outputs=[S3_OUTPUT]
    ),
    "create_task_outputs": lambda suite: suite.create(outputs=[{**S3_OUTPUT, "type": "FILE"}]),
    "create_task_streamable": lambda suite: suite.create(inputs=[{**S3_INPUT, "streamable": True}]),
    "filter_task_by_name": filter_task_by_name,
    "filter_task_by_state": filter_task_by_state,
    "filter_task_by_tag": filter_task_by_tag,
    "get_task_basic": lambda suite: suite.get(suite.create(), "BASIC"),
    "get_task_full": lambda suite: suite.get(suite.create(), "FULL"),
    "get_task_minimal": lambda suite: suite.get(suite.create()),
    "list_tasks_basic": lambda suite: suite.find(view="BASIC"),
    "list_tasks_full": lambda suite: suite.find(view="FULL"),
    "list_tasks_minimal": lambda suite: suite.find(),
    "list_tasks_page_size": list_tasks_page_size,
    "list_tasks_page_token": list_tasks_page_token,
    "service_info": service_info,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_root()
    need_program("crun")
    with running_cluster(tmp_path_factory.mktemp("suite") / "data") as running:
        running.lading("image", "add", "--name", "alpine", "--from-host", "echo", "sleep")
        token = running.environment["ARVADOS_API_TOKEN"]
        running.stop()
        (running.data / "config.yml").write_text(f'TES: {{AnonymousToken: "{token}"}}\n')
        running.start()
        yield running


@pytest.fixture(scope="module", params=["/v1", "/ga4gh/tes/v1"])
def suite(cluster: Cluster, request: pytest.FixtureRequest) -> Suite:
    return Suite(cluster, request.param)


@pytest.mark.parametrize("name", [*CHECKS])
def test_check(suite: Suite, name: str) -> None:
    CHECKS[name](suite)
