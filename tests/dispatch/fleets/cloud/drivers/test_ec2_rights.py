"""The policy of the documentation has the rights that the driver uses, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lading.dispatch.fleets.cloud.drivers import ec2

ROOT = Path(__file__).parents[5]


def actions(name: str) -> set[str]:
    """What a policy of `packaging/aws` allows."""
    document = json.loads((ROOT / "packaging/aws" / name).read_text())
    found: set[str] = set()
    for one in document["Statement"]:
        assert one["Effect"] == "Allow"
        found |= {one["Action"]} if isinstance(one["Action"], str) else set(one["Action"])
    return found


def test_the_dispatcher_may_do_what_the_driver_calls() -> None:
    source = Path(ec2.__file__).read_text()
    calls = re.findall(r'_call\(\s*"([a-z_]+)"', source)
    assert len(calls) >= 6
    wanted = {f"ec2:{''.join(word.title() for word in call.split('_'))}" for call in calls}
    assert actions("dispatcher-policy.json") == wanted


def test_the_store_may_read_write_and_delete_blocks() -> None:
    source = (ROOT / "src/lading/blobs/s3.py").read_text()
    calls = set(re.findall(r'"((?:get|put|delete|copy|head|list)_[a-z0-9_]+)"', source))
    # S3 takes each of these calls for one of the rights (HeadObject and the source of a copy need
    # GetObject, its target PutObject, HeadBucket needs ListBucket).
    right = {
        "get_object": "s3:GetObject", "head_object": "s3:GetObject", "put_object": "s3:PutObject",
        "copy_object": "s3:PutObject", "delete_object": "s3:DeleteObject",
        "head_bucket": "s3:ListBucket", "list_objects_v2": "s3:ListBucket",
    }  # fmt: skip
    assert calls == set(right)
    assert actions("blocks-policy.json") == set(right.values())
