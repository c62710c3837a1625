"""Clients of S3, unmodified, from the package index, with a real server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.system.cluster import Cluster, running_cluster
from tests.system.environments import environment

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]
BOTO3 = """
import io, os, ssl, urllib.request
import boto3

client = boto3.client("s3")
client.create_bucket(Bucket="boto-bucket")
data = os.urandom(20 << 20)
for algorithm in ("CRC32", "SHA1", "SHA256"):
    client.put_object(
        Bucket="boto-bucket", Key=f"sums/{algorithm}", Body=b"x", ChecksumAlgorithm=algorithm
    )
client.upload_fileobj(io.BytesIO(data), "boto-bucket", "a b+\u00fc/large")
source = {"Bucket": "boto-bucket", "Key": "a b+\u00fc/large"}
client.copy(source, "boto-bucket", "copy")
for key in (source["Key"], "copy"):
    received = io.BytesIO()
    client.download_fileobj("boto-bucket", key, received)
    assert received.getvalue() == data
assert client.head_object(Bucket="boto-bucket", Key="copy")["ETag"].endswith('-3"')
pages = client.get_paginator("list_objects_v2").paginate(
    Bucket="boto-bucket", PaginationConfig={"PageSize": 2}
)
keys = [item["Key"] for page in pages for item in page["Contents"]]
assert keys == [source["Key"], "copy", "sums/CRC32", "sums/SHA1", "sums/SHA256"], keys
address = client.generate_presigned_url("get_object", Params=source, ExpiresIn=60)
trust = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"])
assert urllib.request.urlopen(address, context=trust).read() == data
assert not client.list_multipart_uploads(Bucket="boto-bucket").get("Uploads")
deleted = client.delete_objects(
    Bucket="boto-bucket", Delete={"Objects": [{"Key": key} for key in keys]}
)
assert len(deleted["Deleted"]) == 5
client.delete_bucket(Bucket="boto-bucket")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("s3") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def variables(cluster: Cluster) -> dict[str, str]:
    """The variables that clients of S3 read."""
    made = json.loads(cluster.lading("token", "create", "--s3", "--all", "--json").stdout)
    return {
        **cluster.environment,
        "AWS_ACCESS_KEY_ID": made["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": made["secret_access_key"],
        "AWS_ENDPOINT_URL": made["endpoint_url"],
        "AWS_DEFAULT_REGION": "local",
        "AWS_CA_BUNDLE": str(cluster.data / "tls.crt"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def execute(variables: Mapping[str, str], directory: Path, program: str, *arguments: str) -> str:
    """Run a program of the environment; what it wrote. It must succeed."""
    done = subprocess.run(
        [environment("s3-clients") / program, *arguments],
        cwd=directory, env={**variables, "HOME": str(directory)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_boto3(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BOTO3)
    execute(variables, tmp_path, "python", "script.py")


def test_aws_cli(variables: dict[str, str], tmp_path: Path) -> None:
    files = {"one": b"1", "below/two": b"2", "large": bytes(range(256)) * 50_000}
    for name, content in files.items():
        path = tmp_path / "sent" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def aws(*arguments: str) -> str:
        return execute(variables, tmp_path, "aws", "s3", *arguments)

    aws("mb", "s3://cli-bucket")
    aws("sync", "--only-show-errors", "sent", "s3://cli-bucket/in")
    aws("sync", "--only-show-errors", "s3://cli-bucket/in", "back")
    back = {name: (tmp_path / "back" / name).read_bytes() for name in files}
    assert back == files
    assert aws("sync", "sent", "s3://cli-bucket/in") == "", "nothing is sent again"
    aws("mv", "s3://cli-bucket/in/one", "s3://cli-bucket/moved")
    listed = [line.split()[-1] for line in aws("ls", "--recursive", "s3://cli-bucket").splitlines()]
    assert listed == ["in/below/two", "in/large", "moved"]
    aws("rm", "--recursive", "s3://cli-bucket")
    aws("rb", "s3://cli-bucket")
