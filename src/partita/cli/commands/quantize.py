"""``partita quantize``: what each layer loses by fewer bits, and a model of fewer bits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from partita.cli import flags
from partita.cli.flags import flag, number
from partita.cli.output import print_reply

_WIDTHS = "2, 3, 4, 6 or 8; 0 leaves them as they are."


def quantize(
    model: flags.ModelArg,
    samples: Annotated[
        list[str], flag("--samples", "Folder or file of samples, or NAME=FOLDER. Repeatable.")
    ],
    weights: Annotated[int, number("--weights", 0, 32, f"Bits of weights: {_WIDTHS}")] = 8,
    activations: Annotated[
        int, number("--activations", 0, 32, f"Bits of activations: {_WIDTHS}")
    ] = 8,
    per_layer: Annotated[
        bool, flag("--per-layer", "One scale for all weights of a layer, not one per channel.")
    ] = False,
    exact_sums: Annotated[
        bool, flag("--exact-sums", "Scales of few digits: kernels of all kinds answer the same.")
    ] = False,
    affine: Annotated[
        bool, flag("--affine", "Codes of weights cover a range, not one around 0.")
    ] = False,
    clip: Annotated[str, flag("--clip", "How ranges are found: max, mse, aciq or lapq.")] = "mse",
    evaluations: Annotated[
        int, number("--evaluations", 0, 10**6, "Tables of bits that lapq tries.")
    ] = 200,
    measure: Annotated[
        str,
        flag(
            "--measure",
            "What an error is: mse; of outputs by one alone: output-mse, noise, kl, cross-entropy.",
        ),
    ] = "mse",
    keep_float: Annotated[
        float | None,
        number(
            "--keep-float",
            -100,
            200,
            "Keep as floats what alone leaves outputs less signal-to-noise, in dB.",
        ),
    ] = None,
    errors: Annotated[
        Path | None, flag("--errors", "File for the error table and the bits (JSON).")
    ] = None,
    output: Annotated[
        Path | None, flag("--output", "ONNX file to write, with codes of 8 or 4 bits.", "-o")
    ] = None,
    shape: flags.ShapeOpt = None,
    json: flags.JsonOpt = False,
    debug: flags.DebugOpt = False,
) -> int:
    """Show what each layer loses by fewer bits, from samples; write the model with such."""
    from partita.cli.actions.quantize import QuantizeFlags, quantize_model

    asked = QuantizeFlags(
        weights,
        activations,
        not per_layer,
        affine,
        exact_sums,
        clip,
        evaluations,
        measure,
        keep_float,
        errors,
        output,
    )
    return print_reply(quantize_model(model, shape, samples, asked), as_json=json)
