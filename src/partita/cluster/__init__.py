"""Devices and links: the cluster file, and a catalogue of known devices."""

from partita.cluster.array import Array
from partita.cluster.catalogue import (
    OWN_ARRAY,
    THIS_MACHINE,
    UNMEASURED,
    CatalogueEntry,
    catalogue_names,
    find_entry,
    load_catalogue,
)
from partita.cluster.copies import as_kind, copy_device
from partita.cluster.difference import list_differences
from partita.cluster.dump import dump_cluster, dump_links
from partita.cluster.file import load_cluster
from partita.cluster.model import Cluster, Device, Strangers
from partita.execution import Link

__all__ = [
    "OWN_ARRAY",
    "THIS_MACHINE",
    "UNMEASURED",
    "Array",
    "CatalogueEntry",
    "Cluster",
    "Device",
    "Link",
    "Strangers",
    "as_kind",
    "catalogue_names",
    "copy_device",
    "dump_cluster",
    "dump_links",
    "find_entry",
    "list_differences",
    "load_catalogue",
    "load_cluster",
]
