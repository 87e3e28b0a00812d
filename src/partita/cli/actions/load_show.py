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
    """The variants and children of a bundle."""
    rows = tuple(
        (
            variant.name,
            str(number),
            describe_layers(child.layers),
            format_bytes(child.size_bytes),
            "yes" if child.trainable else "no",
        )
        for variant in manifest.variants
        for number, child in enumerate(variant.children)
    )
    columns = ("variant", "child", "layers", "weights", "trainable")
    table = draw_table(TableData(f"Bundle of {manifest.model}", columns, rows, text_columns=3))
    payload = {
        "folder": str(folder),
        "model": manifest.model,
        "engine": manifest.engine,
        "variants": [_describe_variant(variant) for variant in manifest.variants],
    }
    return Reply(payload, [table, f"Bundle: {folder}"])


def _describe_variant(variant: Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "device": variant.device,
        "processor": variant.processor,
        "threads": variant.threads,
        "loaders": variant.loaders,
        "weight_bytes": variant.weights_bytes,
        "children": [
            {
                "layers": list(child.layers),
                "weight_bytes": child.size_bytes,
                "trainable": child.trainable,
            }
            for child in variant.children
        ],
    }
