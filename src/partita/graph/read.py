"""Read an ONNX file, or say in one line why it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx.inliner
from onnx import helper

from partita.errors import ModelError, first_line
from partita.graph.model_file import Source, read_model
from partita.graph.mutable_graph import (
    GROWTH,
    GROWTH_BYTES,
    Array,
    Info,
    MutableGraph,
    name_bodies_apart,
    rename_input,
    value_info,
)
from partita.graph.node import with_bodies
from partita.graph.opset import TARGET_OPSET
from partita.graph.stored import StoredTensors

Shapes = Mapping[str, Sequence[int]]

_CODES = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
#: Oldest version of the standard operators that is understood.
OLDEST_OPSET = 7
#: Newest version that the installed ONNX knows.
NEWEST_OPSET = onnx.defs.onnx_opset_version()
#: Operator domains that ONNX Runtime brings with it.
KNOWN_DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "com.microsoft"))


def read_draft(source: Source, name: str | None, shapes: Shapes | None) -> MutableGraph:
    """The graph of ``source`` with weights taken out and input shapes fixed.

    Raises:
        ModelError: The file is missing, damaged, too old, or uses what is not supported; an input
            has free dimensions that ``shapes`` does not fix, or ``shapes`` does not fit.
    """
    label = name or (Path(source).stem if isinstance(source, str | Path) else "")
    model = read_model(source)
    label = label or model.graph.name or "model"
    stored = StoredTensors(label, Path(source) if isinstance(source, str | Path) else None)
    _check_header(model, label)
    if model.functions:
        model = _inline(model, label)
    constants = _read_constants(model, stored, label)
    inputs = {v.name: value_info(v) for v in model.graph.input if v.name not in constants}
    if not inputs:
        raise ModelError(
            f"Model '{label}' takes no inputs: it always answers the same, and there is nothing to"
            " divide.",
            subject=label,
        )
    nodes = [_copy(node) for node in model.graph.node]
    stored.take_in(nodes)
    name_bodies_apart(nodes)
    draft = MutableGraph(
        name=label,
        nodes=nodes,
        constants=constants,
        inputs=_fix_shapes(inputs, model, shapes or {}, label),
        outputs={v.name: _output_type(v) for v in model.graph.output},
        opset_imports=_used_opsets(model),
        # IR 3 wants every initializer among the inputs; from 4 on they may stand apart.
        ir_version=max(model.ir_version, 8),
        declared=_declared_shapes(model),
        limit_bytes=GROWTH_BYTES + GROWTH * sum(array.nbytes for array in constants.values()),
    )
    _compute_constant_outputs(draft)
    _check_structure(draft)
    return draft


def _compute_constant_outputs(draft: MutableGraph) -> None:
    """Put a node before each output that is a constant, so that every output has a producer."""
    for name in draft.outputs:
        if name in draft.constants:
            value = f"{name}.value"
            draft.constants[value] = draft.constants.pop(name)
            for node in draft.nodes:
                rename_input(node, name, value)
            draft.nodes.append(helper.make_node("Identity", [value], [name]))


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}


def _used_opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The model's opsets; a standard one that no node needs is one in which pieces can be cut."""
    opsets = _opsets(model)
    return opsets if opsets.get("", 0) >= OLDEST_OPSET else opsets | {"": TARGET_OPSET}


def _check_header(model: onnx.ModelProto, label: str) -> None:
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"Model '{label}' has no nodes or no outputs.", subject=label)
    own = {f.domain for f in model.functions}
    nodes = list(with_bodies(model.graph.node))
    used = {node.domain for node in nodes}
    for domain in sorted(used - KNOWN_DOMAINS - own):
        ops = sorted({n.op_type for n in nodes if n.domain == domain})
        raise ModelError(
            f"Model '{label}' uses operator domain '{domain}' ({', '.join(ops)}), which "
            "cannot be divided: allowed are ai.onnx, ai.onnx.ml and com.microsoft. Export the "
            "model without custom operators, and not as an engine has optimised it.",
            subject=domain,
        )
    opset = _opsets(model).get("", 0)
    if opset > NEWEST_OPSET:
        raise ModelError(
            f"Model '{label}' has opset {opset}: allowed are {OLDEST_OPSET} to {NEWEST_OPSET}. "
            "Export it again with an older opset.",
            subject=label,
        )
    if opset < OLDEST_OPSET and not used <= {"ai.onnx.ml", "com.microsoft"}:
        raise ModelError(
            f"Model '{label}' has opset {opset}: allowed are {OLDEST_OPSET} and newer. "
            "Export it again with a newer opset.",
            subject=label,
        )


def _inline(model: onnx.ModelProto, label: str) -> onnx.ModelProto:
    try:
        result: onnx.ModelProto = onnx.inliner.inline_local_functions(model)
        return result
    except Exception as error:
        raise ModelError(
            f"Model '{label}' has functions that cannot be inlined: {bare_line(error)}.",
            subject=label,
        ) from None


def _read_constants(model: onnx.ModelProto, stored: StoredTensors, label: str) -> dict[str, Array]:
    if model.graph.sparse_initializer:
        raise ModelError(f"Model '{label}' has sparse initializers: not supported.", subject=label)
    return {tensor.name: stored.read(tensor) for tensor in model.graph.initializer}


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    if copy.domain == "ai.onnx":
        copy.domain = ""
    while copy.input and not copy.input[-1]:  # as absent as what is not there: engines differ
        del copy.input[-1]
    return copy


def _fix_shapes(
    inputs: dict[str, Info], model: onnx.ModelProto, shapes: Shapes, label: str
) -> dict[str, Info]:
    if not isinstance(shapes, Mapping):
        raise ModelError(
            f"Shapes are of type {type(shapes).__name__}: allowed are extents by the name of an"
            " input."
        )
    for name in shapes:
        if name not in inputs:
            raise ModelError(
                f"Model '{label}' has no input '{name}': its inputs are {', '.join(inputs)}.",
                subject=name,
            )
    declared = {value.name: value for value in model.graph.input}
    return {name: _fix_shape(declared[name], info, shapes) for name, info in inputs.items()}


def _fix_shape(value: onnx.ValueInfoProto, info: Info, shapes: Shapes) -> Info:
    name = value.name
    if not info.elem_type:
        raise ModelError(f"Input '{name}' is not a tensor: not supported.", subject=name)
    try:
        given = tuple(int(extent) for extent in shapes[name]) if name in shapes else None
    except (TypeError, ValueError):
        raise ModelError(
            f"The shape of input '{name}' is {shapes[name]!r}: allowed is a list of whole numbers.",
            subject=name,
        ) from None
    if info.shape is None and given is None:
        raise ModelError(
            f"Input '{name}' has no shape; give --shape {name}=1x3x224x224.", subject=name
        )
    known = (-1,) * len(given or ()) if info.shape is None else info.shape
    if given is None:
        _refuse_free(value, known)
        return Info(info.elem_type, known)
    # Some exporters write 0 where an extent is free.
    declared = tuple(extent or -1 for extent in known)
    fits = len(given) == len(declared) and all(
        g > 0 and d in (-1, g) for g, d in zip(given, declared, strict=True)
    )
    if not fits:
        said = "x".join(_dimension_names(value)) or "nothing"
        raise ModelError(
            f"Input '{name}' cannot have shape {_show(given)}: the model says {said}; allowed are"
            " extents of 1 and more.",
            subject=name,
        )
    return Info(info.elem_type, given)


def _refuse_free(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    names = _dimension_names(value)
    free = [names[axis] for axis, extent in enumerate(shape) if extent < 1]
    if not free:
        return
    rest = iter((1, 3, 224, 224, 224) if len(shape) >= 3 else (1,) * len(shape))
    example = _show(tuple(e if (r := next(rest, 1)) and e > 0 else r for e in shape))
    if 0 in shape:
        raise ModelError(
            f"Input '{value.name}' has shape {_show(shape)}: empty inputs are not supported. If 0"
            f" stands for a free dimension, give --shape {value.name}={example}.",
            subject=value.name,
        )
    raise ModelError(
        f"input '{value.name}' has free dimensions: {', '.join(free)}; "
        f"give --shape {value.name}={example}",
        subject=value.name,
    )


def _output_type(value: onnx.ValueInfoProto) -> int:
    kind = value_info(value).elem_type
    if not kind and value.type.WhichOneof("value"):
        raise ModelError(
            f"Output '{value.name}' is not a tensor: not supported.", subject=value.name
        )
    return kind


def _declared_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shapes of outputs of which every extent is given."""
    infos = {value.name: value_info(value) for value in model.graph.output}
    return {
        name: info.shape
        for name, info in infos.items()
        if info.shape is not None and min(info.shape, default=1) > 0
    }


def _dimension_names(value: onnx.ValueInfoProto) -> list[str]:
    dims = value.type.tensor_type.shape.dim
    return [
        str(d.dim_value)
        if d.HasField("dim_value") and d.dim_value > 0
        else d.dim_param or f"dim{i}"
        for i, d in enumerate(dims)
    ]


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape)


def _check_structure(draft: MutableGraph) -> None:
    try:
        # The checker wants some shape declared for each output, and does not compare it.
        onnx.checker.check_model(draft.to_stripped_model(output_shape=()))
    except onnx.checker.ValidationError as error:
        raise ModelError(
            f"Model '{draft.name}' breaks the ONNX rules: {bare_line(error)}.", subject=draft.name
        ) from None


def bare_line(error: BaseException) -> str:
    """The first line of an error's text, without the engine's codes."""
    return _CODES.sub("", first_line(error))
