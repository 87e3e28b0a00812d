"""Writing the fragments of a layout as ONNX graphs and weight blobs."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from partita.cluster import Cluster
from partita.compile.layout import Layout, build_layout, work_builder
from partita.compile.planned import planned_graph
from partita.compile.work import FragmentWork, WorkBuilder
from partita.errors import PlanError
from partita.graph import Graph
from partita.graph.fragment import BlobStore, Fragment, FragmentWriter, Held, Pieces
from partita.graph.grids import find_grids
from partita.graph.pins import spread_pins
from partita.plan import Plan
from partita.program import FragmentInfo, Program
from partita.program.check import check_program, find_leaks
from partita.program.credits import drop_needless_credits


@dataclass(frozen=True)
class Compiled:
    """A plan, ready to deploy.

    Attributes:
        program: Steps and streams; fragments named by content hash.
        graphs: Fragment hash to serialised ONNX graph.
        blobs: Blob hash to weight bytes.
        probes: Per fragment, the tensors and boxes that it answers after what its steps write.
    """

    program: Program
    graphs: dict[str, bytes]
    blobs: dict[str, np.ndarray[Any, np.dtype[np.uint8]]]
    probes: tuple[Pieces, ...] = ()


def compile_plan(
    graph: Graph, plan: Plan, cluster: Cluster, probes: AbstractSet[str] = frozenset()
) -> Compiled:
    """The plan compiled for the cluster, fragments written.

    Args:
        probes: Tensors that fragments shall answer, too, wherever one computes them.

    Raises:
        PlanError: As :func:`partita.compile.build_layout`; or the program is not sound.
    """
    graph = planned_graph(graph, plan)
    compiled = write_fragments(graph, build_layout(graph, plan, cluster), probes)
    faults = check_program(compiled.program)
    for tensor, device in spread_pins(graph, plan.keep_on).items():
        faults += find_leaks(compiled.program, tensor, device)
    if faults:
        raise PlanError(f"Plan compiles to a program that is not sound: {faults[0]}.")
    return compiled


def write_fragments(
    graph: Graph, layout: Layout, probes: AbstractSet[str] = frozenset()
) -> Compiled:
    """The layout with its fragments written and hashed."""
    store = BlobStore(graph)
    builder = work_builder(graph)
    writers = [FragmentWriter(graph, builder.regions, store) for _ in layout.works]
    fragments = [
        fill_writer(builder, work, writer, probes)
        for work, writer in zip(layout.works, writers, strict=True)
    ]
    infos = tuple(
        FragmentInfo(
            fragment.hash,
            fragment.blobs,
            len(fragment.graph),
            fragment.weight_bytes,
            fragment.blob_bytes,
            sum(store.blobs[blob].nbytes for blob in fragment.blobs),
        )
        for fragment in fragments
    )
    program = drop_needless_credits(msgspec.structs.replace(layout.program, fragments=infos))
    graphs = {fragment.hash: fragment.graph for fragment in fragments}
    return Compiled(program, graphs, store.blobs, tuple(writer.probed for writer in writers))


def write_work(builder: WorkBuilder, work: FragmentWork, store: BlobStore) -> Fragment:
    """One work as a fragment."""
    return fill_writer(builder, work, FragmentWriter(builder.graph, builder.regions, store))


def fill_writer(
    builder: WorkBuilder,
    work: FragmentWork,
    writer: FragmentWriter,
    probes: AbstractSet[str] = frozenset(),
) -> Fragment:
    """One work as the fragment that ``writer`` makes of it; it says which probes it answers."""
    held: Held = {
        tensor: (_input(builder.graph, tensor, f"i{k}", writer), box)
        for k, (tensor, box) in enumerate(work.inputs)
    }
    if work.kind == "stage":
        for layer in work.layers:
            writer.layer(layer.layer, dict(layer.boxes), held)
    elif work.kind == "partial":
        _write_partial(builder, work, writer, held)
    else:
        _write_merge(builder, work, writer, held)
    names = [writer.crop(*held[tensor], box) for tensor, box in work.outputs]
    writer.probed = tuple((tensor, held[tensor][1]) for tensor in held if tensor in probes)
    names += [held[tensor][0] for tensor, _ in writer.probed]
    values = [
        [(_dtype(builder, work, tensor), box) for tensor, box in pieces]
        for pieces in (work.inputs, (*work.outputs, *writer.probed))
    ]
    return writer.finish(values[0], values[1], names)


def _input(graph: Graph, tensor: str, name: str, writer: FragmentWriter) -> str:
    """A fragment's input; a quantised one is quantised again for integer kernels to see it."""
    grid = graph.remember(find_grids).get(tensor) if graph.integer else None
    return name if grid is None else writer.requantise(name, grid)


def _dtype(builder: WorkBuilder, work: FragmentWork, tensor: str) -> str:
    specs = builder.graph.tensors
    if tensor in specs:
        return specs[tensor].dtype
    return builder.sum_dtype(builder.graph.layer(work.layers[0].layer))


def _write_partial(
    builder: WorkBuilder, work: FragmentWork, writer: FragmentWriter, held: Held
) -> None:
    layer = builder.graph.layer(work.layers[0].layer)
    node = builder.graph.nodes[layer.nodes[0]]
    partial = builder.regions.partial_form(layer)
    if partial is None:
        raise PlanError(
            f"Layer '{layer.name}' ({layer.kind}) cannot be computed in partial sums.",
            subject=layer.name,
        )
    form, view, part = partial[0], builder.regions.view(node), work.inputs[0][1]
    args = writer.arguments(node, form.needs(view, part), held)
    name, box = work.outputs[0]
    dtype = form.sum_dtype(view)
    if dtype == view.dtype:
        result = form.emit_partial(view, part, args, writer)
    elif form.widens_input:
        result = form.emit_partial(view, part, [_cast(writer, args[0], dtype), *args[1:]], writer)
    else:
        result = _cast(writer, form.emit_partial(view, part, args, writer), dtype)
    held[name] = (result, box)


def _cast(writer: FragmentWriter, name: str, dtype: str) -> str:
    return writer.node("Cast", [name], {"to": np_dtype_to_tensor_dtype(np.dtype(dtype))})[0]


def _write_merge(
    builder: WorkBuilder, work: FragmentWork, writer: FragmentWriter, held: Held
) -> None:
    layer = builder.graph.layer(work.layers[0].layer)
    node = builder.graph.nodes[layer.nodes[0]]
    partial = builder.regions.partial_form(layer)
    if partial is None:
        raise PlanError(f"Layer '{layer.name}' cannot be merged from partial sums.")
    form, view = partial[0], builder.regions.view(node)
    boxes = dict(work.layers[0].boxes)
    core_box = builder.core_box(layer, boxes)
    consts = {
        index: writer.weight(node.inputs[index], box)
        for index, box in form.merge_needs(view, core_box).items()
    }
    parts = [f"i{number}" for number in range(work.parts)]
    wide = replace(view, dtype=form.sum_dtype(view))
    if wide.dtype != view.dtype:
        consts = {index: _cast(writer, name, wide.dtype) for index, name in consts.items()}
    result = form.emit_merge(wide, parts, consts, writer)
    if wide.dtype != view.dtype:
        result = _cast(writer, result, view.dtype)
    held[node.outputs[0]] = (result, core_box)
    writer.followers(layer.name, boxes, held)
