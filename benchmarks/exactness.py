"""Divided networks against ONNX Runtime on the whole one: the same answer, to rounding.

Each model is divided by rows, tiles, output channels, input channels, pairs of layers that one sum
joins (attention by heads among them) and whole-stage cuts, each in 2, 3 and 5 unequal shares. Every
piece at a stage boundary, every softmax's input and every output that no softmax made is compared;
the number is the largest difference over the largest magnitude of its tensor. Then one row of halo
is taken from every window, and every division by rows or tiles must be seen to fail.

    python -m benchmarks.exactness [--models NAME...] [--json]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.encoders import make_encoder
from tests.models import LIGHT_MODELS

from benchmarks.harness import Arrays, Row, draw_inputs, find_model, make_parser, report, say
from benchmarks.uniform import UNIFORM_AXES, UniformOptions, plan_pairs, plan_uniform
from partita.cluster import Cluster
from partita.compile import WholeModel, compile_plan
from partita.exactness.compare import compare_pieces, difference_of, tolerance_of
from partita.exactness.interpret import run_program
from partita.graph import Graph, load_graph
from partita.graph.rules import window
from partita.plan import SplitAxis
from partita.zoo import ZOO, build_model

SHARES = ((1.0, 3.0), (1.0, 3.0, 2.0), (2.0, 1.0, 4.0, 1.0, 3.0))
SOFTMAXES = ("Softmax", "LogSoftmax")
SPATIAL = ("rows", "tiles")
#: Float16 models, and the float32 models that they are made of.
HALVES = {"half_squeezenet": "light_squeezenet", "half_mobilenet_v2": "mobilenet_v2"}
#: Made by hand: five heads, an odd number of tokens.
ENCODERS = ("encoder",)
#: Height and width of those whose own size would take many minutes.
SIZES = {"yolov2": 224, "openpose": 184, "voxelnet": 96, "lowlight_resnet": 96}
#: Deeper than what is examined already, and of the same layers.
TWINS = {"resnet152": "resnet50", "densenet201": "light_densenet121"}
MODELS = (
    *(f"light_{name}" for name in LIGHT_MODELS),
    *(name for name in ZOO if name not in TWINS),
    "plate-detector",
    "plate-reader",
    *ENCODERS,
    *HALVES,
)
#: Of layers that one sum joins: by output channels, then by input channels of the same ranges.
PAIRS = "pairs"
CASES = tuple(product((*UNIFORM_AXES, PAIRS), SHARES))


def open_model(name: str) -> onnx.ModelProto:
    """Return a model by name, with the input of every softmax among its outputs."""
    if name in HALVES:
        return expose_softmax(halve(find_model(HALVES[name])))
    if name == "plate-reader":
        from partita.demo.package import READER, load_resource

        return expose_softmax(fix_reader(onnx.load_from_string(load_resource(READER))))
    if name in ENCODERS:
        return make_encoder(width=160, heads=5, tokens=33, blocks=3)
    if name in SIZES:
        return build_model(name, size=SIZES[name])
    return expose_softmax(find_model(name))


def fix_reader(model: onnx.ModelProto) -> onnx.ModelProto:
    """Fix the reader's input to a strip of 32 x 200 pixels, in place."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, extent in zip(dims, (1, 3, 32, 200), strict=True):
        dim.Clear()
        dim.dim_value = extent
    return model


def expose_softmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """Add each softmax's input to the outputs, in place: after it differences are squeezed away."""
    known = {value.name for value in model.graph.output}
    for node in model.graph.node:
        if node.op_type in SOFTMAXES and node.input[0] not in known:
            known.add(node.input[0])
            kind = model.graph.output[0].type.tensor_type.elem_type
            value = helper.make_tensor_value_info(node.input[0], kind, None)
            model.graph.output.append(value)
    return model


def halve(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn a float32 model's weights, inputs and outputs into float16, in place."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    del model.graph.value_info[:]
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


@dataclass(frozen=True)
class Truth:
    """What ONNX Runtime answers for the whole model.

    Attributes:
        inner: Every tensor between layers, from a session that shows them all.
        outputs: The outputs, from a session that shows nothing else.
        squeezed: Tensors after a softmax, which are not compared.
    """

    feeds: Arrays
    inner: Arrays
    outputs: Arrays
    squeezed: frozenset[str]


def find_truth(graph: Graph) -> Truth:
    """Run the whole model on drawn inputs, once as it is and once with all its tensors shown."""
    feeds = draw_inputs(graph)
    made = [tensor for layer in graph.layers for tensor in layer.outputs]
    shown = WholeModel(graph, made).run(feeds)
    outputs = WholeModel(graph).run(feeds)
    return Truth(feeds, {**shown, **feeds}, outputs, find_squeezed(graph))


def find_difference(graph: Graph, truth: Truth, axis: str, shares: Sequence[float]) -> float:
    """Return the largest relative difference of any piece or output of one division."""
    cluster = Cluster.of([f"d{number}" for number in range(len(shares))])
    if axis == PAIRS:
        plan = plan_pairs(graph, cluster, shares)
    else:
        plan = plan_uniform(graph, cluster, UniformOptions(cast(SplitAxis, axis), tuple(shares)))
    compiled = compile_plan(graph, plan, cluster)
    outputs, pieces = run_program(compiled, truth.feeds)
    found = compare_pieces(pieces, truth.inner)
    found += [difference_of(name, outputs[name], truth.outputs[name]) for name in graph.outputs]
    return max(one.relative for one in found if one.tensor not in truth.squeezed)


def find_squeezed(graph: Graph) -> frozenset[str]:
    """Return the tensors that are made of a softmax, its own output included.

    What its shares weigh, as in attention, is not.
    """
    found: set[str] = set()
    for node in graph.nodes:
        if node.op in SOFTMAXES or (node.op != "MatMul" and not found.isdisjoint(node.reads)):
            found.update(node.outputs)
    return frozenset(found)


@contextmanager
def plant_halo_fault() -> Iterator[None]:
    """Let every window that begins inside a tensor see zeros in place of its first row."""
    honest = window.part_of_axis

    def short(axis: window.AxisWindow, interval: tuple[int, int]) -> window.AxisPart:
        part = honest(axis, interval)
        start, stop = part.need
        if axis.kernel < 2 or start == 0 or stop - start < 2:
            return part
        return replace(part, need=(start + 1, stop), pads=(part.pads[0] + 1, part.pads[1]))

    window.part_of_axis = short
    try:
        yield
    finally:
        window.part_of_axis = honest


def is_fault_seen(graph: Graph, truth: Truth, axis: str, shares: Sequence[float]) -> bool:
    """Whether a division with a planted halo fault differs, or cannot even be computed."""
    try:
        return find_difference(graph, truth, axis, shares) > tolerance_of(graph)
    except Exception as error:
        say(f"  the fault shows as {type(error).__name__}: {str(error)[:80]}")
        return True


def name_case(axis: str, shares: Sequence[float]) -> str:
    words = {"output_channels": "channels", "input_channels": "filters", "none": "cuts"}
    return f"{words.get(axis, axis)} {len(shares)}"


def examine(name: str) -> tuple[list[Row], dict[str, float]]:
    """Return the model's rows for the table, and the difference of each case."""
    start_s = time.monotonic()
    graph = load_graph(open_model(name), name=name)
    truth = find_truth(graph)
    found: dict[str, float] = {}
    for axis, shares in CASES:
        case = name_case(axis, shares)
        found[case] = find_difference(graph, truth, axis, shares)
        say(f"{name}, {case}: {found[case]:.1e}")
        gc.collect()
    # Regions are remembered per graph object: the fault needs one that nobody asked before.
    spoiled = replace(graph)
    with plant_halo_fault():
        spatial = [one for one in CASES if one[0] in SPATIAL and name not in ENCODERS]
        seen = [is_fault_seen(spoiled, truth, axis, shares) for axis, shares in spatial]
    say(f"{name}: {time.monotonic() - start_s:.0f} s, worst {max(found.values()):.1e}")
    return make_rows(name, found, tolerance_of(graph), seen), found


def make_rows(name: str, found: dict[str, float], allowed: float, seen: list[bool]) -> list[Row]:
    case, worst = max(found.items(), key=lambda item: item[1])
    target = f"<= {allowed * 1e6:g} ppm of the largest value in all {len(found)} cases"
    return [
        Row(f"{name} (worst: {case})", "ppm", worst * 1e6, None, None, target, worst <= allowed),
        Row(
            f"{name}, planted halo fault seen",
            "cases",
            sum(seen),
            None,
            None,
            f"all {len(seen)} spatial cases",
            all(seen),
        ),
    ]


def print_table(differences: dict[str, dict[str, float]]) -> None:
    """Print one line per model, one column per case."""
    names = [name_case(axis, shares) for axis, shares in CASES]
    width = max(len(name) for name in names)
    print(f"{'largest relative difference':28}", *(f"{name:>{width}}" for name in names))
    for model, found in differences.items():
        print(f"{model:28}", *(f"{found[name]:{width}.1e}" for name in names))


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    args = parser.parse_args()
    rows: list[Row] = []
    differences: dict[str, dict[str, float]] = {}
    for name in args.models:
        try:
            more, differences[name] = examine(name)
        except Exception as error:
            say(f"{name} failed: {type(error).__name__}: {error}")
            more = [Row(f"{name} (failed)", "", float("inf"), None, None, "an answer", False)]
        rows += more
        gc.collect()
    if not args.json:
        print_table(differences)
    return report(
        rows, as_json=args.json, notes={"differences": differences} if args.json else None
    )


if __name__ == "__main__":
    sys.exit(main())
