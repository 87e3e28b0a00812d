"""What a bundle holds; needs the core installation only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from partita.cli.output import Reply
from partita.loading import Manifest, read_manifest, verify_bundle
from partita.loading.bundle.manifest import Variant
from partita.report import draw_table
from partita.report.tables import TableData, describe_layers
from partita.units import format_bytes


def show_bundle(bundle: Path, *, verify: bool) -> Reply:
    """What a bundle holds, and whether all files have the hashes that it says.

    Raises:
        BundleError: It is missing, damaged, of another engine, or altered.
    """
    manifest = read_manifest(bundle)
    if verify:
        verify_bundle(bundle, manifest)
    reply = describe_bundle(manifest, bundle)
    reply.payload["verified"] = verify
    if verify:
        reply.shown.append("Intact: all files are what the manifest says.")
    return reply


def describe_bundle(manifest: Manifest, folder: Path) -> Reply:
    """The schemes and children of a bundle."""
    rows = tuple(
        (
            scheme.name,
            str(number),
            describe_layers(child.layers),
            format_bytes(child.size_bytes),
            "yes" if child.trainable else "no",
        )
        for scheme in manifest.schemes
        for number, child in enumerate(scheme.children)
    )
    columns = ("scheme", "child", "layers", "weights", "trainable")
    table = draw_table(TableData(f"Bundle of {manifest.model}", columns, rows, text_columns=3))
    payload = {
        "folder": str(folder),
        "model": manifest.model,
        "engine": manifest.engine,
        "schemes": [_describe_scheme(scheme) for scheme in manifest.schemes],
    }
    return Reply(payload, [table, f"Bundle: {folder}"])


def _describe_scheme(scheme: Variant) -> dict[str, Any]:
    return {
        "name": scheme.name,
        "device": scheme.device,
        "processor": scheme.processor,
        "threads": scheme.threads,
        "loaders": scheme.loaders,
        "weight_bytes": scheme.weights_bytes,
        "children": [
            {
                "layers": list(child.layers),
                "weight_bytes": child.size_bytes,
                "trainable": child.trainable,
            }
            for child in scheme.children
        ],
    }
