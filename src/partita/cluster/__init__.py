"""Devices and links: the cluster file, and a catalogue of known devices."""

from partita.cluster.catalogue import (
    THIS_MACHINE,
    Benchmark,
    CatalogueEntry,
    catalogue_names,
    find_entry,
    load_catalogue,
)
from partita.cluster.dump import dump_cluster
from partita.cluster.file import load_cluster
from partita.cluster.model import Cluster, Device, LabSettings
from partita.cluster.trace import read_trace
from partita.execution import Link

__all__ = [
    "THIS_MACHINE",
    "Benchmark",
    "CatalogueEntry",
    "Cluster",
    "Device",
    "LabSettings",
    "Link",
    "catalogue_names",
    "dump_cluster",
    "find_entry",
    "load_catalogue",
    "load_cluster",
    "read_trace",
]
