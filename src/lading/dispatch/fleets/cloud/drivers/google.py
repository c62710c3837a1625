"""Google Compute Engine, one zone of one project.

- Tags are kept as JSON in the metadata item `lading-tags` of a VM, as Google's labels have neither
  capital letters nor most signs. Tags that fit into labels are labels too, in small letters, but
  for the secret: bills show labels. Lists are filtered by one label; the metadata decides.
- Google accepts requests that it then cannot fulfil: the end of the operation is awaited for a
  while.
- Preemptible VMs are of the model SPOT and are deleted when they are preempted.

Parameters: Project, Zone, ServiceAccount (its e-mail address), KeyFile (its key, JSON or PEM),
Network or Subnetwork (paths such as `global/networks/default`), ExternalAddress (true: VMs have
one), DiskType, DiskSizeGB, AdminUsername, VMServiceAccount. ImageID is a path such as
`projects/P/global/images/family/F`.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from lading.core.errors import LadingError
from lading.core.resources import GIB
from lading.core.scheduling.instance_types import InstanceType
from lading.dispatch.fleets.cloud.drivers.driver import (
    DriverSite,
    Instance,
    InstanceSpec,
    bad_parameter,
    refuse_unknown,
    text,
)
from lading.dispatch.fleets.cloud.drivers.libcloud_connection import (
    TIMEOUT,
    LibcloudConnection,
    LibcloudResponse,
    Missing,
    ProviderLogin,
    Words,
    log_in,
    wait_for,
)

PARAMETERS = (
    "Provider", "Project", "Zone", "ServiceAccount", "KeyFile", "Network", "Subnetwork",
    "ExternalAddress", "DiskType", "DiskSizeGB", "AdminUsername", "VMServiceAccount",
)  # fmt: skip
WORDS = Words(
    cloud="Google",
    rate=frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"}),
    quota=frozenset({"QUOTA_EXCEEDED", "quotaExceeded", "limitExceeded"}),
    quota_said=re.compile(r"[Qq]uota '?\w*'? ?exceeded"),
    capacity=frozenset(
        {
            "ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "resourcePoolExhausted", "UNSUPPORTED_OPERATION", "STOCKOUT",
        }
    ),
    capacity_said=re.compile(r"does not have enough resources"),
    wrong_said=re.compile(r"GoogleAuthError|private key|PEM|invalid_grant"),
)  # fmt: skip
_TAGS = "lading-tags"
# Seconds for which a creation is watched, and between two looks: Google accepts some that it
# refuses later.
_WAIT, _PAUSE = 30.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSettings:
    """The parameters, read."""

    project: str
    zone: str
    account: str
    key_file: str
    network: str
    subnetwork: str
    external: bool
    disk_type: str
    disk_size: int
    user: str
    vm_account: str
    tag: str
    set_id: str


class GoogleProvider:
    """Implements `Provider`."""

    def __init__(self, settings: GoogleSettings, line: LibcloudConnection) -> None:
        self._settings, self._line = settings, line

    def create(self, spec: InstanceSpec) -> Instance:
        """Insert a VM."""
        # Names have at most 63 characters, small letters, digits and `-`: 8 + 32 + 1 + 16.
        name = (
            f"compute-{_legal(self._settings.set_id)[:32].replace('_', '-')}-{secrets.token_hex(8)}"
        )
        try:
            self._finish(self._line.ask("POST", self._path(), body=self._instance_body(name, spec)))
        except Missing as error:
            raise error.at_creation() from error
        except LadingError:
            # The VM may exist in spite of the error.
            with suppress(LadingError):
                self._line.ask("DELETE", self._path(name))
            raise
        return Instance(
            id=name,
            provider_type=spec.kind.provider_type,
            user=self._settings.user,
            tags=dict(spec.tags),
        )

    def list(self) -> list[Instance]:
        """The VMs with our label and tag that are not about to end."""
        filter_text = f"labels.{label_name(self._settings.tag)}={_legal(self._settings.set_id)}"
        instances: list[Instance] = []
        more: dict[str, str] = {}
        while True:
            document = self._line.ask(
                "GET", self._path(), params={"filter": filter_text, **more}
            ).document
            for item in document.get("items") or []:
                tags = _tags(item)
                if (
                    # Labels lose capital letters and signs, so two sets may share one: the tags in
                    # the metadata decide.
                    tags.get(self._settings.tag) == self._settings.set_id
                    and item.get("status") != "STOPPING"
                ):
                    instances.append(self._instance(item, tags))
            if not document.get("nextPageToken"):
                return instances
            more = {"pageToken": str(document["nextPageToken"])}

    def tag(self, id: str, tags: Mapping[str, str]) -> None:
        """Replace the tags: those of the metadata, then the labels."""
        with suppress(Missing):
            instance = self._line.ask("GET", self._path(id)).document
            metadata = instance.get("metadata") or {}
            items = [item for item in metadata.get("items") or [] if item.get("key") != _TAGS]
            body = {
                # Google refuses a change without the fingerprint of the replaced metadata: a
                # concurrent change is not lost.
                "fingerprint": metadata.get("fingerprint"),
                "items": [*items, _item(_TAGS, json.dumps(dict(tags)))],
            }
            self._finish(self._line.ask("POST", f"{self._path(id)}/setMetadata", body=body))
            labelled = {
                "labels": labels(tags),
                "labelFingerprint": instance.get("labelFingerprint"),
            }
            self._finish(self._line.ask("POST", f"{self._path(id)}/setLabels", body=labelled))

    def destroy(self, id: str) -> None:
        """Delete it with its disks."""
        # The VM is gone already.
        with suppress(Missing):
            self._line.ask("DELETE", self._path(id))

    def console(self, id: str) -> str:
        """The output of its first serial port, where Google's images have their console."""
        with suppress(Missing):
            path, params = f"{self._path(id)}/serialPort", {"port": "1"}
            found = self._line.ask("GET", path, params=params).document
            return str(found.get("contents") or "")
        return ""

    def close(self) -> None:
        """Close the connection."""
        self._line.close()

    def _instance_body(self, name: str, spec: InstanceSpec) -> dict[str, Any]:
        chosen, kind = self._settings, spec.kind
        zone = f"zones/{chosen.zone}"
        disk_type = {"diskType": f"{zone}/diskTypes/{chosen.disk_type}"}
        boot: dict[str, Any] = {"sourceImage": spec.image, **disk_type}
        if chosen.disk_size:
            boot["diskSizeGb"] = str(chosen.disk_size)
        disks: list[dict[str, Any]] = [{"boot": True, "autoDelete": True, "initializeParams": boot}]
        if kind.added:
            size = {"diskSizeGb": str(math.ceil(kind.added / GIB)), **disk_type}
            disks.append({"autoDelete": True, "deviceName": "scratch", "initializeParams": size})
        network: dict[str, Any] = (
            {"subnetwork": chosen.subnetwork} if chosen.subnetwork else {"network": chosen.network}
        )
        if chosen.external:
            network["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
        items = [_item(_TAGS, json.dumps(dict(spec.tags))), _item("startup-script", spec.user_data)]
        # Without these two, keys of the project and OS Login would let others in.
        items += [_item("enable-oslogin", "FALSE"), _item("block-project-ssh-keys", "TRUE")]
        if spec.public_key:
            items.append(_item("ssh-keys", f"{chosen.user}:{spec.public_key}"))
        body: dict[str, Any] = {
            "name": name,
            "machineType": f"{zone}/machineTypes/{kind.provider_type}",
            "labels": labels(spec.tags),
            "metadata": {"items": items},
            "disks": disks,
            "networkInterfaces": [network],
            "scheduling": _scheduling(kind),
        }
        if chosen.vm_account:
            scope = "https://www.googleapis.com/auth/cloud-platform"
            body["serviceAccounts"] = [{"email": chosen.vm_account, "scopes": [scope]}]
        return body

    def _finish(self, answer: LibcloudResponse) -> None:
        """Wait for the end of an operation; its error is raised by libcloud."""
        name = answer.document.get("name")
        if not name or answer.document.get("status") == "DONE":
            return
        path = f"/zones/{self._settings.zone}/operations/{name}"
        wait_for(
            lambda: self._line.ask("GET", path).document.get("status") == "DONE",
            longest=_WAIT,
            pause=_PAUSE,
        )

    def _instance(self, item: Mapping[str, Any], tags: Mapping[str, str]) -> Instance:
        interfaces = item.get("networkInterfaces") or [{}]
        return Instance(
            id=item["name"],
            provider_type=str(item.get("machineType", "")).rpartition("/")[2],
            address=str(interfaces[0].get("networkIP") or ""),
            user=self._settings.user,
            tags=tags,
        )

    def _path(self, name: str = "") -> str:
        return f"/zones/{self._settings.zone}/instances{f'/{name}' if name else ''}"


def labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that labels may show, in the letters that they have; at most 64."""
    shown = {
        label_name(name): _legal(value)
        for name, value in tags.items()
        if not name.endswith("InstanceSecret")
    }
    return dict(list(shown.items())[:64])


def label_name(name: str) -> str:
    """A tag's name as a label: small letters, digits, _ and -, a letter first, at most 63 of
    them.
    """
    legal = _legal(name)
    return legal if legal[:1].isalpha() else f"x{legal}"[:63]


def group(kind: InstanceType) -> str:
    """The family of a machine type, spot apart."""
    return f"{kind.provider_type.partition('-')[0]}{'-spot' if kind.preemptible else ''}"


def read(site: DriverSite) -> GoogleSettings:
    """The parameters of the configuration. Raises Invalid."""
    parameters = site.parameters
    refuse_unknown(parameters, PARAMETERS)
    external, size = parameters.get("ExternalAddress", False), parameters.get("DiskSizeGB", 0)
    if not isinstance(external, bool):
        raise bad_parameter("ExternalAddress", external, "true or false")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise bad_parameter("DiskSizeGB", size, "a number, 0 for that of the image")
    return GoogleSettings(
        project=text(parameters, "Project", allowed="the id of a project"),
        zone=text(parameters, "Zone", allowed="the name of a zone, such as europe-west4-a"),
        account=text(
            parameters, "ServiceAccount", allowed="the e-mail address of a service account"
        ),
        key_file=text(
            parameters, "KeyFile", allowed="the path of a file with the key of the service account"
        ),
        network=text(parameters, "Network", "global/networks/default"),
        subnetwork=text(parameters, "Subnetwork", ""),
        external=external,
        disk_type=text(parameters, "DiskType", "pd-balanced"),
        disk_size=size,
        user=text(parameters, "AdminUsername", "crunch"),
        vm_account=text(parameters, "VMServiceAccount", ""),
        tag=site.tag,
        set_id=site.set_id,
    )


def opening(site: DriverSite) -> ProviderLogin:
    """The login to Google from the driver's parameters. Raises Invalid."""
    settings = read(site)

    def start() -> GoogleProvider:
        from libcloud.compute.drivers.gce import GCENodeDriver

        # A file for tokens is none of our business: they last as long as the connection.
        driver = partial(
            GCENodeDriver, settings.account, settings.key_file, project=settings.project,
            auth_type="SA", credential_file="/dev/null", timeout=TIMEOUT,
        )  # fmt: skip
        return GoogleProvider(settings, log_in(WORDS, driver))

    return ProviderLogin(open=start, group=group, preemption="google")


def _scheduling(kind: InstanceType) -> dict[str, Any]:
    if not kind.preemptible:
        return {
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE" if kind.gpu.count else "MIGRATE",
        }
    return {
        "provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False,
        "onHostMaintenance": "TERMINATE", "instanceTerminationAction": "DELETE",
    }  # fmt: skip


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    items = {
        item.get("key"): item.get("value")
        for item in (record.get("metadata") or {}).get("items") or []
    }
    try:
        tags = json.loads(items.get(_TAGS) or "{}")
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in tags.items()} if isinstance(tags, dict) else {}


def _item(key: str, value: str) -> dict[str, str]:
    return {"key": key, "value": value}


def _legal(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", name.lower())[:63]
