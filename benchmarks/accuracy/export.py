"""From PyTorch to ONNX."""

from __future__ import annotations

import io
import warnings

import onnx
import torch

_OPSET = 17


def export(network: torch.nn.Module, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A network of PyTorch as ONNX, by the exporter that needs no package beside."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            (torch.zeros(shape),),
            stream,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=_OPSET,
            input_names=["image"],
        )
    return onnx.load_from_string(stream.getvalue())
