"""``partita manifests``: a cluster as Kubernetes objects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag
from partita.cli.output import print_reply


def manifests(
    cluster: flags.ClusterOpt,
    output: Annotated[Path, flag("--output", "Folder to write.", "-o")],
    image: Annotated[str, flag("--image", "Container image with Partita.")] = "partita",
    namespace: Annotated[str, flag("--namespace", "Where all objects live.")] = "default",
    site: Annotated[
        Path | None, flag("--site", "Folder from 'partita keys init': its files become Secrets.")
    ] = None,
    insecure: Annotated[
        bool, flag("--insecure", "Let everybody in the pods' network use the workers.")
    ] = False,
    serve: Annotated[
        str, flag("--serve", "Plan file within the claim of --models, to be served.")
    ] = "",
    models: Annotated[
        str, flag("--models", "PersistentVolumeClaim with plans, models, cluster files.")
    ] = "",
    quota: Annotated[str, flag("--quota", "Most that a worker keeps of models.")] = "4 GB",
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Write a cluster's workers, credentials and service as Kubernetes objects."""
    from partita.cli.actions import manifests as action

    options = action.read_options(image, namespace, (models, serve), quota, insecure=insecure)
    return print_reply(action.write_manifests(cluster, output, site, options), as_json=json)
