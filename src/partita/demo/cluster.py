"""The demo's cluster: a file like any other, shipped with the package."""

from __future__ import annotations

from importlib.resources import files

from partita.cluster import Cluster, load_cluster

LAB_FILE = "lab.toml"


def load_demo_cluster() -> Cluster:
    """The demo's four emulated devices, the camera the slowest of them.

    >>> load_demo_cluster().requester
    'camera'
    """
    return load_cluster(files("partita.demo").joinpath(LAB_FILE).read_bytes())
