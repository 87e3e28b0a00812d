"""``partita manifests``: objects that Kubernetes accepts, and that start what they should."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from tools import surface

from partita.cluster import load_cluster
from partita.fabric.join import decode_join
from tests.cli.conftest import Ask

#: From the oldest that is still in clouds' long-term support to the newest that is known.
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
SERVED = ("--serve", "plan.json", "--models", "models", "--namespace", "edge")
CLUSTER = """
[cluster]
name = "garage"
requester = "nano"

[[device]]
name = "nano"
kind = "jetson-nano"

[[device]]
name = "Pi_3.b"
kind = "raspberry-pi-3"
profile = "pi.json"
threads = 3
"""

Json = dict[str, Any]


@pytest.fixture
def garage(folder: Path) -> Path:
    """A cluster file of two devices."""
    path = folder / "garage.toml"
    path.write_text(CLUSTER, encoding="utf-8")
    return path


def _read(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.glob("*.json")):
        yield from json.loads(path.read_text(encoding="utf-8"))["items"]


def _find(folder: Path, kind: str, name: str) -> Json:
    return next(
        each for each in _read(folder) if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )


def _pod(workload: Json) -> Json:
    pod: Json = workload["spec"]["template"]["spec"]
    return pod


def _secured(ask: Ask) -> Path:
    """Manifests with credentials, made as a user would."""
    first = ["manifests", "--cluster", "garage.toml", "-o", "k8s", *SERVED]
    assert ask(*first).code == 0
    assert ask("keys", "init", "site", "--cluster", "k8s/cluster.toml").code == 0
    assert ask(*first, "--site", "site").code == 0
    return Path("k8s")


def test_kubernetes_accepts_all_objects(ask: Ask, garage: Path) -> None:
    """The API schemas of several versions know every field, with and without credentials."""
    assert ask("manifests", "--cluster", "garage.toml", "-o", "open", "--insecure").code == 0
    objects = {each["kind"]: each for each in _read(_secured(ask))}
    assert objects.keys() == {"StatefulSet", "Deployment", "Service", "Secret"}
    trusting = {each["kind"]: each for each in _read(Path("open"))}
    for version, each in product(VERSIONS, [*objects.values(), *trusting.values()]):
        kubernetes_validate.validate(each, version, strict=True)


def test_the_schema_sees_a_fault(ask: Ask, garage: Path) -> None:
    """What checks the objects refuses one with a misspelt field."""
    workload = _find(_secured(ask), "StatefulSet", "partita-nano")
    _pod(workload)["nodeSelectors"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(workload, VERSIONS[0], strict=True)


def test_a_worker_is_on_its_node_at_its_address(ask: Ask, garage: Path) -> None:
    """Cluster file, Service, port and node of a device are the same one's."""
    folder = _secured(ask)
    for device in load_cluster(folder / "cluster.toml").devices:
        protocol, _, place = (device.address or "").partition("/")
        host, _, port = place.partition(":")
        name, _, namespace = host.partition(".")
        assert (protocol, namespace) == ("tls", "edge")
        service = _find(folder, "Service", name)
        workload = _find(folder, "StatefulSet", name)
        assert {part["port"] for part in service["spec"]["ports"]} == {int(port), int(port) + 1}
        assert service["spec"]["selector"] == workload["spec"]["template"]["metadata"]["labels"]
        assert _pod(workload)["nodeSelector"] == {"partita/device": device.name}
        assert workload["spec"]["replicas"] == 1


def test_each_pod_has_its_own_credentials(ask: Ask, garage: Path) -> None:
    """Of the site's files each Secret holds one, which its pod reads without being root."""
    folder = _secured(ask)
    owners = {"partita-nano": "nano", "partita-pi-3-b": "Pi_3.b", "partita-leader": "leader"}
    for secret, owner in owners.items():
        data = _find(folder, "Secret", secret)["data"]
        join = decode_join(base64.b64decode(data["member.join"]), "member.join")
        assert join.name == owner
    for kind, name, secret in (
        ("StatefulSet", "partita-pi-3-b", "partita-pi-3-b"),
        ("Deployment", "partita-serve", "partita-leader"),
    ):
        pod = _pod(_find(folder, kind, name))
        held = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v]
        assert held == [secret]
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"] > 0
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert (folder / "credentials.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("access", ["open", "secured"])
def test_pods_run_commands_that_there_are(ask: Ask, garage: Path, access: str) -> None:
    """Every flag is one of the command, and every volume that is mounted is one of the pod."""
    if access == "secured":
        folder = _secured(ask)
    else:
        folder = Path("k8s")
        words = ("-o", str(folder), "--insecure", *SERVED)
        assert ask("manifests", "--cluster", "garage.toml", *words).code == 0
    commands = surface.list_commands()
    pods = [_pod(each) for each in _read(folder) if each["kind"] in ("StatefulSet", "Deployment")]
    assert len(pods) == 3
    for pod in pods:
        (container,) = pod["containers"]
        verb, *words = container["args"]
        given = [word for word in words if word.startswith("--")]
        assert given
        assert set(given) <= set(commands[verb]["flags"])
        assert ("--insecure" in given) == (access == "open")
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_probes_ask_the_protocol(ask: Ask, garage: Path) -> None:
    """The service is alive and ready by its own word."""
    (container,) = _pod(_find(_secured(ask), "Deployment", "partita-serve"))["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"


def test_profiles_are_found_from_the_new_file(ask: Ask, garage: Path) -> None:
    """A profile's path is relative to the folder that the cluster file is written to."""
    assert ask("manifests", "--cluster", "garage.toml", "-o", "k8s", "--insecure").code == 0
    text = Path("k8s/cluster.toml").read_text(encoding="utf-8")
    assert 'profile = "../pi.json"' in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--serve plan.json", "--serve and --models go together"),
        ("--serve /plan.json --models m", "a path within the claim"),
        ("--serve ../plan.json --models m", "a path within the claim"),
        ("--namespace Edge", "small letters"),
        ("--site site --insecure", "contradict"),
        ("--site nowhere", "cannot be read"),
        ("--quota 1", "--quota"),
    ],
)
def test_what_cannot_be_is_one_line(ask: Ask, garage: Path, words: str, told: str) -> None:
    """Wrong flags are told, and nothing is written."""
    done = ask("manifests", "--cluster", "garage.toml", "-o", "k8s", *words.split())
    assert done.code == 2
    assert told in done.message
    assert not Path("k8s").exists()


def test_credentials_for_other_addresses_are_refused(ask: Ask, garage: Path) -> None:
    """A site of the plain cluster file does not lead to pods."""
    assert ask("keys", "init", "site", "--cluster", "garage.toml").code == 0
    done = ask("manifests", "--cluster", "garage.toml", "-o", "k8s", "--site", "site")
    assert done.code == 2
    assert "is not for these manifests: it has 'nano' at no address" in done.message
    assert not Path("k8s").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [("NANO", "share the Kubernetes name"), ("serve", "share"), ("b-", "letter or digit last")],
)
def test_names_that_kubernetes_does_not_have(ask: Ask, garage: Path, name: str, told: str) -> None:
    """Two devices that would become one object are refused, and names that end in a sign."""
    garage.write_text(CLUSTER.replace("Pi_3.b", name), encoding="utf-8")
    done = ask("manifests", "--cluster", "garage.toml", "-o", "k8s")
    assert done.code == 2
    assert told in done.message
