"""Kubernetes objects for a cluster's workers and the service in front of them.

One StatefulSet of one replica per device, on the node that carries the device's label. A Deployment
would start the new pod beside the old one, and there would be two workers of one name; a DaemonSet
cannot tell its pods what their nodes are labelled, so that none would know its name. A StatefulSet
has at most one pod at a time, also while a node is lost. Its Service has no address of its own: the
name leads to the pod itself, and no proxy lies between workers.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from partita.cluster import Cluster, Device
from partita.errors import ClusterError, InputError
from partita.fabric.zenoh_options import control_address, split_address

#: Who a worker's node is: ``kubectl label node NODE partita/device=NAME``.
NODE_LABEL = "partita/device"
DATA_PORT = 7447
HTTP_PORT = 8000
#: Key of a Secret, and so the file's name in the pod.
JOIN = "member.join"
#: An idle worker, and what its system needs beside it.
_IDLE_BYTES = 256 * 2**20
#: Names that objects beside the workers take.
SERVICE, LEADER = "serve", "leader"
#: What is being written comes on top of the quota; beyond its limit a volume ends its pod.
_STORE_SHARE = 1.25
#: Read by owner and group: the files are root's, and the group the pod's. JSON has no octal.
_SECRET_MODE = 0o440
#: The user of the container file.
_USER = 10001
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")

Json = dict[str, Any]


@dataclass(frozen=True)
class KubernetesOptions:
    """What the cluster file does not say.

    Attributes:
        image: The container image of the workers, and of the service with the extra ``serve``.
        namespace: Where all objects live.
        has_credentials: Whether workers join by files; else everybody in the network is trusted.
        claim: PersistentVolumeClaim that holds plans and models; empty for no service.
        plan: What is served, a path within the claim.
        quota_bytes: Most that a worker keeps of models.
    """

    image: str
    namespace: str = "default"
    has_credentials: bool = True
    claim: str = ""
    plan: str = ""
    quota_bytes: int = 4 * 10**9


def place_cluster(cluster: Cluster, options: KubernetesOptions) -> Cluster:
    """The cluster with the names of its Services as addresses.

    Raises:
        ClusterError: A name cannot be one in Kubernetes, or two become the same.
    """
    protocol = "tls" if options.has_credentials else "tcp"
    hosts: dict[str, str] = {}
    for name in (SERVICE, LEADER, *cluster.names):
        host = object_name(name)
        if host in hosts:
            raise ClusterError(
                f"Device {name!r} would share the Kubernetes name {host!r} with {hosts[host]!r}:"
                " names must differ in more than case, '.' and '_'. Rename one.",
                subject=name,
            )
        hosts[host] = name
    devices = (
        replace(
            device,
            address=f"{protocol}/{object_name(device.name)}.{options.namespace}:{DATA_PORT}",
        )
        for device in cluster.devices
    )
    return replace(cluster, devices=tuple(devices))


def object_name(name: str) -> str:
    """A device's name as that of Kubernetes objects.

    >>> object_name("Pi_3.b")
    'partita-pi-3-b'

    Raises:
        ClusterError: It is too long, or ends in a sign.
    """
    made = f"partita-{re.sub(r'[._]', '-', name.lower())}"
    if not _DNS_LABEL.fullmatch(made):
        raise ClusterError(
            f"{name!r} cannot be the name of a Kubernetes object: allowed are up to 55 letters,"
            " digits, '-', '.' and '_', a letter or digit last.",
            subject=name,
        )
    return made


def check_object_name(what: str, name: str) -> None:
    """Refuse what cannot be the name of a namespace or a claim.

    Raises:
        InputError: It is none.
    """
    if not _DNS_LABEL.fullmatch(name):
        raise InputError(
            f"{what} is '{name}', allowed are up to 63 small letters, digits and '-', a letter"
            " first, a letter or digit last.",
            subject=what,
        )


def make_manifests(cluster: Cluster, options: KubernetesOptions) -> dict[str, list[Json]]:
    """Kubernetes objects by file, without credentials.

    Args:
        cluster: As :func:`place_cluster` gives it.
    """
    made = {
        "workers": [part for d in cluster.devices for part in _make_worker(d, cluster, options)]
    }
    if options.plan:
        made["service"] = _make_service(cluster, options)
    return made


def make_secrets(joins: Mapping[str, bytes], cluster: Cluster, namespace: str) -> list[Json]:
    """A Secret per member, of its join file."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _metadata(name, cluster.name, namespace),
            "type": "Opaque",
            "data": {JOIN: base64.b64encode(data).decode()},
        }
        for name, data in joins.items()
    ]


def write_list(objects: list[Json]) -> bytes:
    """A file of objects; ``kubectl`` takes JSON wherever it takes YAML."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2).encode()


def _metadata(name: str, cluster: str, namespace: str) -> Json:
    return {"name": object_name(name), "namespace": namespace, "labels": _labels(name, cluster)}


def _labels(name: str, cluster: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "partita",
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/component": object_name(name),
    }


def _make_worker(device: Device, cluster: Cluster, options: KubernetesOptions) -> list[Json]:
    metadata = _metadata(device.name, cluster.name, options.namespace)
    labels = metadata["labels"]
    _, _, data_port = split_address(device.address or "")
    _, _, control_port = split_address(control_address(device.address or ""))
    ports = {"data": data_port, "control": control_port}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,  # workers look for each other while they start
            "selector": labels,
            "ports": [{"name": name, "port": port} for name, port in ports.items()],
        },
    }
    container = {
        "name": "worker",
        "image": options.image,
        "args": _worker_arguments(device, cluster.name, options),
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "startupProbe": {**_probe_port(), "periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": {**_probe_port(), "periodSeconds": 5},
        "livenessProbe": {**_probe_port(), "periodSeconds": 10, "timeoutSeconds": 5},
        "resources": {
            "requests": {"cpu": str(device.threads), "memory": str(_pod_bytes(device))},
            "limits": {"memory": str(_pod_bytes(device))},
        },
    }
    limit = str(int(_STORE_SHARE * options.quota_bytes))
    volumes = {"store": {"emptyDir": {"sizeLimit": limit}}}
    pod = _make_pod(container, volumes, "/var/lib/partita", options, device.name)
    pod["nodeSelector"] = {NODE_LABEL: device.name}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "serviceName": metadata["name"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return [service, workload]


def _pod_bytes(device: Device) -> int:
    """What a worker may take in all: the cluster file's number is beyond the idle one."""
    return int(device.memory_bytes) + _IDLE_BYTES


def _worker_arguments(device: Device, cluster: str, options: KubernetesOptions) -> list[str]:
    """Flags of ``partita worker``; it listens everywhere, as its Service's name is not its own."""
    protocol, _, port = split_address(device.address or "")
    who = ["--name", device.name, "--cluster-name", cluster, "--insecure"]
    if options.has_credentials:
        who = ["--join", f"/credentials/{JOIN}"]
    flags = ["--listen", f"{protocol}/0.0.0.0:{port}", "--store", "/var/lib/partita/store"]
    flags += ["--quota", f"{options.quota_bytes} B"]
    limits = ["--threads", str(device.threads), "--memory", f"{int(device.memory_bytes)} B"]
    engine = ["--provider", device.provider]
    if device.endpoint:
        engine += ["--endpoint", device.endpoint]
    return ["worker", *who, *flags, *limits, *engine, "--log-format", "json"]


def _probe_port() -> Json:
    """Whether somebody listens at the control port, the second of the two that are taken."""
    return {"tcpSocket": {"port": "control"}}


def _make_pod(
    container: Json, volumes: Json, writable: str, options: KubernetesOptions, member: str
) -> Json:
    """A pod that writes into its volumes only, as nobody in particular.

    Args:
        volumes: By name; the first one is mounted at ``writable``, others as the container says.
        member: Whose credentials it has.
    """
    mounts = [
        {"name": next(iter(volumes)), "mountPath": writable},
        {"name": "tmp", "mountPath": "/tmp"},
        *container.get("volumeMounts", []),
    ]
    volumes = {**volumes, "tmp": {"emptyDir": {}}}
    if options.has_credentials:
        # Not by subPath: new files of rotated credentials would not reach the pod.
        mounts.append({"name": "credentials", "mountPath": "/credentials", "readOnly": True})
        volumes["credentials"] = {
            "secret": {"secretName": object_name(member), "defaultMode": _SECRET_MODE}
        }
    security = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 40,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{**container, "securityContext": security, "volumeMounts": mounts}],
        "volumes": [{"name": name, **volume} for name, volume in volumes.items()],
    }


def _make_service(cluster: Cluster, options: KubernetesOptions) -> list[Json]:
    """``partita serve`` behind a Service; it is the leader, which its supervisor starts again."""
    metadata = _metadata(SERVICE, cluster.name, options.namespace)
    labels = metadata["labels"]
    access = ["--join", f"/credentials/{JOIN}"] if options.has_credentials else ["--insecure"]
    listen = ["--listen", f"0.0.0.0:{HTTP_PORT}", "--recover", "--log-format", "json"]
    container = {
        "name": "serve",
        "image": options.image,
        "workingDir": "/models",  # a plan names its model and its cluster file beside it
        "args": ["serve", options.plan, *access, *listen],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        # It answers once its models are deployed; large ones take their time over slow links.
        "startupProbe": {**_probe_http("ready"), "periodSeconds": 5, "failureThreshold": 120},
        "readinessProbe": {**_probe_http("ready"), "periodSeconds": 5},
        "livenessProbe": {**_probe_http("live"), "periodSeconds": 10, "failureThreshold": 3},
        "resources": {"requests": {"cpu": "1", "memory": "512Mi"}},
        "volumeMounts": [{"name": "models", "mountPath": "/models", "readOnly": True}],
    }
    volumes = {
        "cache": {"emptyDir": {}},
        "models": {"persistentVolumeClaim": {"claimName": options.claim, "readOnly": True}},
    }
    pod = _make_pod(container, volumes, "/var/lib/partita", options, LEADER)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            # A new version is ready, and serves, before the old one ends.
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "selector": labels,
            "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http"}],
        },
    }
    return [deployment, service]


def _probe_http(what: str) -> Json:
    """Ask by the Open Inference Protocol v2 whether the server is live or ready."""
    return {"httpGet": {"path": f"/v2/health/{what}", "port": "http"}, "timeoutSeconds": 5}
