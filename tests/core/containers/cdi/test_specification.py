"""CDI specifications; what is read and refused follows the text of the project."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lading.core.containers.cdi.specification import (
    DeviceNode,
    Mount,
    least_version,
    parse_name,
    read_specification,
)
from lading.core.errors import Invalid

# As the example of the project's text: a device with two nodes, and edits for every device.
EXAMPLE: dict[str, Any] = {
    "cdiVersion": "0.6.0",
    "kind": "vendor.example/device",
    "devices": [
        {
            "name": "first",
            "containerEdits": {
                "deviceNodes": [
                    {"hostPath": "/vendorroot/dev/card1", "path": "/dev/card1"},
                    {"path": "/dev/card2"},
                ]
            },
        }
    ],
    "containerEdits": {
        "env": ["FOO=1", "BAR=a=b"],
        "deviceNodes": [{"path": "/dev/ctl", "uid": 1000, "gid": 1000, "permissions": "rw"}],
        "mounts": [{"hostPath": "/usr/lib/libv.so.0", "containerPath": "/usr/lib/libv.so.0"}],
        "hooks": [
            {"hookName": "createContainer", "path": "/bin/vendor-hook", "args": ["hook", "x"]},
            {"hookName": "startContainer", "path": "/usr/bin/ldconfig", "timeout": 3},
        ],
    },
}
SMALLEST: dict[str, Any] = {
    "cdiVersion": "0.3.0",
    "kind": "vendor.example/device",
    "devices": [{"name": "d", "containerEdits": {"deviceNodes": [{"path": "/dev/card1"}]}}],
}


def changed(path: str, value: Any, base: dict[str, Any] = EXAMPLE) -> dict[str, Any]:
    """The document with another value at `a/0/b`."""
    document = copy.deepcopy(base)
    at: Any = document
    *names, last = path.split("/")
    for name in names:
        at = at[int(name)] if name.isdigit() else at[name]
    at[int(last) if last.isdigit() else last] = value
    return document


def test_a_specification_is_read() -> None:
    read = read_specification(EXAMPLE)
    assert read.kind == "vendor.example/device"
    assert read.devices[0].container_edits.device_nodes == (
        DeviceNode(path="/dev/card1", host_path="/vendorroot/dev/card1"),
        DeviceNode(path="/dev/card2"),
    )
    assert [node.source for node in read.devices[0].container_edits.device_nodes] == [
        "/vendorroot/dev/card1", "/dev/card2",
    ]  # fmt: skip
    edits = read.container_edits
    assert edits.env == ("FOO=1", "BAR=a=b")
    assert edits.mounts == (
        Mount(host_path="/usr/lib/libv.so.0", container_path="/usr/lib/libv.so.0"),
    )
    assert [(hook.hook_name, hook.args, hook.timeout) for hook in edits.hooks] == [
        ("createContainer", ("hook", "x"), None),
        ("startContainer", (), 3),
    ]
    assert read_specification(SMALLEST).container_edits.env == ()


def test_null_is_an_absent_value() -> None:
    assert read_specification(changed("containerEdits/env", None)).container_edits.env == ()


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("cdiVersion", "0.2.0", "is none of 0.3.0 to 1.1.0"),
        ("cdiVersion", "9.0.0", "is none of"),
        ("cdiVersion", "0.4.0", "it uses what came with 0.5.0"),
        ("kind", "device", "'device' is no vendor|is no class"),
        ("kind", "vendor.example/", "is no class"),
        ("kind", "vendor.example/a/b", "is no class"),
        ("kind", "vendor.example/-a", "is no class"),
        ("kind", "vendor.example/" + "a" * 64, "is no class"),
        ("kind", "a" * 254 + "/a", "is no vendor"),
        ("kind", "1vendor/a", "is no vendor"),
        ("devices", [], "length >= 1"),
        ("devices/0/name", "a/b", "is no name of a device"),
        ("devices/0/name", "-a", "is no name of a device"),
        ("devices/0/name", "a:", "is no name of a device"),
        ("devices/0/containerEdits", {}, "its containerEdits are empty"),
        ("devices/0/odd", 1, "unknown field"),
        ("odd", 1, "unknown field"),
        ("containerEdits/env", ["FOO"], "is not NAME=VALUE"),
        ("containerEdits/env", ["=FOO"], "is not NAME=VALUE"),
        ("containerEdits/env", ["A=\0"], "is not NAME=VALUE"),
        ("containerEdits/env", "A=1", "array"),
        ("containerEdits/deviceNodes/0/path", "dev/ctl", "must be an absolute path"),
        ("containerEdits/deviceNodes/0/path", "", "must be an absolute path"),
        ("containerEdits/deviceNodes/0/type", "x", "is none of b, c, u, p"),
        ("containerEdits/deviceNodes/0/permissions", "rx", "are not of r, w, m"),
        ("containerEdits/deviceNodes/0/uid", -1, ">= 0"),
        ("containerEdits/mounts/0/containerPath", "/a/../b", "must be an absolute path"),
        ("containerEdits/mounts/0/hostPath", "lib", "must be an absolute path"),
        ("containerEdits/mounts/0", {"hostPath": "/a"}, "containerPath"),
        ("containerEdits/hooks/0/hookName", "odd", "is none of prestart"),
        ("containerEdits/hooks/0/path", "hook", "must be an absolute path"),
        ("containerEdits/hooks/0/timeout", 0, "must be more than 0"),
        ("containerEdits/hooks/0/env", ["X"], "is not NAME=VALUE"),
        ("containerEdits/additionalGids", [5], "it uses what came with 0.7.0"),
        ("containerEdits/netDevices", [{"hostInterfaceName": "a", "name": "b"}], "with 1.1.0"),
    ],
)
def test_what_is_refused(path: str, value: Any, fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as caught:
        read_specification(changed(path, value))
    assert caught.value.message.startswith("CDI: ")
    assert len(caught.value.message) <= 300


@pytest.mark.parametrize(
    ("edits", "fault"),
    [
        ({"netDevices": [{"hostInterfaceName": "a", "name": ""}]}, "is empty, or there twice"),
        (
            {
                "netDevices": [
                    {"hostInterfaceName": "a", "name": "b"},
                    {"hostInterfaceName": "a", "name": "c"},
                ]
            },
            "'a': is empty, or there twice",
        ),
        ({"intelRdt": {"closID": ".."}}, "is no closID"),
        ({"intelRdt": {"closID": "a/b"}}, "is no closID"),
    ],
)
def test_edits_of_later_versions_are_checked(edits: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        read_specification({**SMALLEST, "cdiVersion": "1.1.0", "containerEdits": edits})


def test_documents_of_another_form() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    documents: tuple[Any, ...] = (None, [], 3, {}, {"devices": deep})
    for document in documents:
        with pytest.raises(Invalid, match="CDI: "):
            read_specification(document)
    twice = changed("devices", EXAMPLE["devices"] * 2)
    with pytest.raises(Invalid, match="names two devices"):
        read_specification(twice)
    many = changed("containerEdits/env", ["A=1"] * 1025)
    with pytest.raises(Invalid, match="length <= 1024"):
        read_specification(many)


@pytest.mark.parametrize(
    ("version", "path", "value"),
    [
        ("0.3.0", "kind", "vendor.example/device"),
        ("0.4.0", "devices/0/containerEdits", {"mounts": [
            {"hostPath": "/a", "containerPath": "/a", "type": "none"}]}),
        ("0.5.0", "devices/0/name", "0"),
        ("0.6.0", "kind", "vendor.example/a.b"),
        ("0.6.0", "annotations", {"a": "b"}),
        ("0.7.0", "containerEdits", {"additionalGids": [5]}),
        ("0.7.0", "containerEdits", {"intelRdt": {"closID": "x", "enableCMT": True}}),
        ("1.1.0", "containerEdits", {"intelRdt": {"schemata": ["x"]}}),
    ],
)  # fmt: skip
def test_versions_have_what_came_with_them(version: str, path: str, value: Any) -> None:
    document = {**changed(path, value, SMALLEST), "cdiVersion": version}
    assert least_version(read_specification(document)) == version
    assert read_specification({**document, "cdiVersion": "v1.1.0"}).cdi_version == "v1.1.0"


def test_names_of_devices() -> None:
    assert parse_name("nvidia.com/gpu=0") == ("nvidia.com/gpu", "0")
    assert parse_name("nvidia.com/gpu=1:0") == ("nvidia.com/gpu", "1:0")
    for name in (
        "gpu",
        "nvidia.com/gpu",
        "nvidia.com=0",
        "nvidia.com/gpu=",
        "/dev/nvidia0",
        "a/b=c=",
    ):
        with pytest.raises(Invalid, match="CDI: "):
            parse_name(name)


MAKERS: dict[str, dict[str, Any]] = {
    "an instance of NVIDIA": {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {
                "name": "0:1",
                "containerEdits": {
                    "deviceNodes": [
                        {"path": "/dev/nvidia0"},
                        {"path": "/dev/nvidia-caps/nvidia-cap21"},
                        {"path": "/dev/nvidia-caps/nvidia-cap22"},
                    ]
                },
            }
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "hooks": [
                {
                    "hookName": "createContainer",
                    "path": "/usr/bin/nvidia-cdi-hook",
                    "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64"],
                    "env": ["NVIDIA_CTK_DEBUG=false"],
                }
            ],
        },
    },
    "a GPU of AMD": {
        "cdiVersion": "0.6.0",
        "kind": "amd.com/gpu",
        "devices": [
            {
                "name": "0",
                "containerEdits": {
                    "deviceNodes": [{"path": "/dev/dri/card1"}, {"path": "/dev/dri/renderD128"}]
                },
            }
        ],
        "containerEdits": {"deviceNodes": [{"path": "/dev/kfd"}]},
    },
    "a GPU of Intel": {
        "cdiVersion": "0.5.0",
        "kind": "intel.com/gpu",
        "devices": [
            {
                "name": "gpu0",
                "containerEdits": {
                    "deviceNodes": [
                        {"path": "/dev/dri/renderD128", "hostPath": "/dev/dri/renderD128"}
                    ],
                    "mounts": [
                        {
                            "hostPath": "/dev/dri/by-path",
                            "containerPath": "/dev/dri/by-path",
                            "options": ["bind", "ro"],
                            "type": "none",
                        }
                    ],
                },
            }
        ],
    },
}


@pytest.mark.parametrize("maker", MAKERS)
def test_specifications_in_the_forms_of_makers_are_read(maker: str) -> None:
    specification = read_specification(MAKERS[maker])
    assert len(specification.devices[0].container_edits.device_nodes) >= 1
