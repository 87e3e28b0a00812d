"""Child models: a network cut so that its parts load while others already compute."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partita.loading.children import balanced_ends
    from partita.loading.manifest import Child, Manifest, Scheme, choose_scheme, read_manifest
    from partita.loading.session import BundleSession, Mark, load_bundle
    from partita.loading.split import Division, write_bundle

#: Loaded when used: what answers first must not wait for what splits models.
_HOMES = {
    "BundleSession": "session",
    "Child": "manifest",
    "Division": "split",
    "Manifest": "manifest",
    "Mark": "session",
    "Scheme": "manifest",
    "balanced_ends": "children",
    "choose_scheme": "manifest",
    "load_bundle": "session",
    "read_manifest": "manifest",
    "write_bundle": "split",
}

__all__ = [
    "BundleSession",
    "Child",
    "Division",
    "Manifest",
    "Mark",
    "Scheme",
    "balanced_ends",
    "choose_scheme",
    "load_bundle",
    "read_manifest",
    "write_bundle",
]


def __getattr__(name: str) -> Any:
    """Load an exported name's module on first use."""
    if name in _HOMES:
        return getattr(import_module(f"partita.loading.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
