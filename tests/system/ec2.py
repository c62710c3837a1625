"""A whole EC2 on this machine: moto speaks the protocol, namespaces with a real sshd are the
instances.

Each instance that moto has running becomes a VM of `namespaces` at its private address, with its
user data run at the first start, and ends when moto has it terminated. Needs root, iproute2 and
openssh-server.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lading.core.errors import LadingError
from lading.dispatch.fleets.cloud.drivers.namespace_machines import Machines, Network

REGION, IMAGE = "us-east-1", "ami-03cf127a"
_PERIOD = 0.25


@dataclass(kw_only=True)
class Ec2:
    """A running one. `troubles` are what went wrong with instances, by id."""

    endpoint: str
    subnet: str
    machines: Machines
    client: Any = field(repr=False)
    troubles: dict[str, str] = field(default_factory=dict)
    frozen: bool = False
    """Instances are not brought to life."""
    started: int = 0
    most: int = 0

    @property
    def parameters(self) -> dict[str, str]:
        """Driver parameters for it."""
        return {
            "Region": REGION, "AccessKeyID": "test", "SecretAccessKey": "test",
            "Endpoint": self.endpoint, "SubnetID": self.subnet, "AdminUsername": "root",
        }  # fmt: skip

    def running(self) -> dict[str, dict[str, Any]]:
        """What moto has that runs in this EC2's own subnet, by id."""
        found: dict[str, dict[str, Any]] = {}
        # moto keeps one state for the whole process: an earlier test may have left instances.
        filters = [
            {"Name": "subnet-id", "Values": [self.subnet]},
            {"Name": "instance-state-name", "Values": ["running", "pending"]},
        ]
        for page in self.client.get_paginator("describe_instances").paginate(Filters=filters):
            for group in page["Reservations"]:
                found |= {one["InstanceId"]: one for one in group["Instances"]}
        return found

    def follow(self) -> None:
        """Bring to life and end what moto says."""
        wanted, there = self.running(), {one.id for one in self.machines.list()}
        for id in there - wanted.keys():
            self.machines.stop(id)
        for id in sorted(wanted.keys() - there - self.troubles.keys()):
            if not self.frozen:
                self._start(wanted[id])
        self.most = max(self.most, len(wanted))

    def _start(self, one: dict[str, Any]) -> None:
        id = one["InstanceId"]
        data = self.client.describe_instance_attribute(InstanceId=id, Attribute="userData")
        script = base64.b64decode(data.get("UserData", {}).get("Value", "")).decode()
        try:
            key = _public_key(one.get("KeyName", ""))
            self.machines.start(id, key=key, user_data=script, address=one["PrivateIpAddress"])
            self.started += 1
        except (LadingError, OSError) as error:
            self.troubles[id] = str(error)


def _public_key(name: str) -> str:
    """What was imported under a name; moto does not tell it by its protocol."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.ec2.models import ec2_backends

    found = ec2_backends[DEFAULT_ACCOUNT_ID][REGION].key_pairs.get(name)
    text: object = found.material_public if found is not None else b""
    return text.decode() if isinstance(text, bytes) else str(text)


@contextmanager
def running_ec2(root: Path, *, number: int) -> Iterator[Ec2]:
    """An EC2 whose network is 10.`number`.0.0/16, until the end; every VM ends with it."""
    import boto3
    from moto.server import ThreadedMotoServer

    # It tells of every call.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "ec2",
        region_name=REGION,
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    network = Network(f"lde{number}", f"10.{number}.0.0/16")
    vpc = client.create_vpc(CidrBlock=network.subnet)["Vpc"]["VpcId"]
    subnet = client.create_subnet(VpcId=vpc, CidrBlock=f"10.{number}.16.0/20")["Subnet"]["SubnetId"]
    network.up()
    made = Ec2(endpoint=endpoint, subnet=subnet, machines=Machines(root, network), client=client)
    ended = threading.Event()
    follower = threading.Thread(target=_follow, args=(made, ended), name="EC2 instances")
    follower.start()
    try:
        yield made
    finally:
        ended.set()
        follower.join()
        for one in made.machines.list():
            made.machines.stop(one.id)
        network.down()
        server.stop()


def _follow(made: Ec2, ended: threading.Event) -> None:
    while not ended.wait(_PERIOD):
        made.follow()
