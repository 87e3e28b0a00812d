"""Writing a cluster as Kubernetes objects."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

from partita.cli.actions.worker import parse_size
from partita.cli.output import Reply, check_folder, write_outputs
from partita.cluster import Cluster, dump_cluster, load_cluster
from partita.errors import ClusterError, InputError
from partita.fabric.join import read_join
from partita.files import read_regular
from partita.provision.kubernetes import (
    LEADER,
    NODE_LABEL,
    KubernetesOptions,
    check_object_name,
    make_manifests,
    make_secrets,
    place_cluster,
    write_list,
)


def read_options(
    image: str, namespace: str, served: tuple[str, str], quota: str, *, insecure: bool
) -> KubernetesOptions:
    """The flags' values, as far as they can be right.

    Args:
        served: The claim, and the plan within it; both or neither.

    Raises:
        InputError: One of them cannot be.
    """
    check_object_name("--namespace", namespace)
    claim, plan = served
    if bool(claim) != bool(plan):
        raise InputError(
            "--serve and --models go together: a plan file, and the claim that holds it.",
            subject="--models" if plan else "--serve",
        )
    if claim:
        check_object_name("--models", claim)
        if PurePosixPath(plan).is_absolute() or ".." in PurePosixPath(plan).parts:
            raise InputError(
                f"--serve is '{plan}', allowed is a path within the claim, such as plan.json.",
                subject="--serve",
            )
    if not image or image.split() != [image]:
        raise InputError(f"--image is '{image}', allowed is an image's name.", subject="--image")
    return KubernetesOptions(
        image, namespace, not insecure, claim, plan, parse_size("--quota", quota)
    )


def write_manifests(
    path: Path, folder: Path, site: Path | None, options: KubernetesOptions
) -> Reply:
    """Write the objects and the cluster file that goes with them into a folder.

    Raises:
        InputError: The folder cannot be written.
        ClusterError: A name cannot be used, or a join file is missing or not for this cluster.
    """
    check_folder(folder)
    if site is not None and not options.has_credentials:
        raise InputError("--site and --insecure contradict each other.", subject="--insecure")
    cluster = place_cluster(_move_profiles(load_cluster(path), folder), options)
    objects = make_manifests(cluster, options)
    if site is not None:
        joins = {name: _read_join(site, name, cluster) for name in (*cluster.names, LEADER)}
        objects["credentials"] = make_secrets(joins, cluster, options.namespace)
    files = {f"{name}.json": write_list(each) for name, each in objects.items()}
    files["cluster.toml"] = dump_cluster(cluster).encode()
    write_outputs(folder, files, is_private=site is not None)
    payload = {"files": [str(folder / name) for name in files], "devices": list(cluster.names)}
    return Reply(payload, [*_describe(folder, cluster, site, options)])


def _move_profiles(cluster: Cluster, folder: Path) -> Cluster:
    """The cluster with paths of profiles as a file in ``folder`` has to name them."""
    devices = (
        replace(device, profile=os.path.relpath(device.profile, folder) if device.profile else None)
        for device in cluster.devices
    )
    return replace(cluster, devices=tuple(devices))


def _read_join(site: Path, name: str, cluster: Cluster) -> bytes:
    """A member's file, which must lead to where the manifests put the workers.

    Raises:
        ClusterError: It cannot be read, or leads elsewhere.
    """
    path = site / f"{name}.join"
    join = read_join(path)
    told = {member.name: member.address for member in join.members}
    placed = {device.name: device.address for device in cluster.devices}
    for device, address in placed.items():
        if join.cluster != cluster.name or told.get(device) != address:
            raise ClusterError(
                f"Join file '{path}' is not for these manifests: it has {device!r} at"
                f" {told.get(device) or 'no address'} of cluster {join.cluster!r}, they have it"
                f" at {address} of {cluster.name!r}. Make the site of the cluster.toml that this"
                " command writes without --site.",
                subject=str(path),
            )
    return read_regular(path)


def _describe(
    folder: Path, cluster: Cluster, site: Path | None, options: KubernetesOptions
) -> list[str]:
    lines = [f"Written to {folder}: {len(cluster.names)} workers of cluster {cluster.name}."]
    if options.has_credentials and site is None:
        lines.append("Credentials are not in it yet:")
        lines.append(f"  partita keys init SITE --cluster {folder / 'cluster.toml'}")
        lines.append("  and this command again with --site SITE")
        return lines
    lines += [f"  kubectl label node NODE {NODE_LABEL}={name}" for name in cluster.names]
    return [*lines, f"  kubectl apply -f {folder}"]
