"""Every region rule against ONNX Runtime: any box of the output equals that box of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partita.graph import load_graph
from partita.graph.rules import rule_of
from tests.graph.rules.single import Array, assert_boxes_equal, make_single

RNG = np.random.default_rng(7)
X4 = RNG.standard_normal((1, 6, 11, 9), np.float32)
X5 = RNG.standard_normal((1, 4, 5, 7, 6), np.float32)
X3 = RNG.standard_normal((2, 4, 17), np.float32)
X2 = RNG.standard_normal((5, 8), np.float32)


def weights(*shape: int) -> Array:
    """Return seeded filters."""
    return RNG.standard_normal(shape, np.float32)


def ints(*values: int) -> Array:
    """Return an int64 constant."""
    return np.asarray(values, np.int64)


CONVS: dict[str, tuple[Array, Array, dict[str, Any]]] = {
    "plain": (X4, weights(4, 6, 3, 3), {"pads": [1, 1, 1, 1]}),
    "stride 2": (X4, weights(4, 6, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "dilated": (X4, weights(4, 6, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "even kernel": (X4, weights(4, 6, 2, 4), {"pads": [1, 0, 0, 3]}),
    "asymmetric pads": (X4, weights(4, 6, 3, 3), {"pads": [0, 2, 2, 1], "strides": [2, 1]}),
    "same upper": (X4, weights(4, 6, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": (X4, weights(4, 6, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": (X4, weights(4, 6, 3, 3), {"auto_pad": "VALID"}),
    "groups": (X4, weights(9, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise": (X4, weights(6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "depthwise times two": (X4, weights(12, 1, 3, 3), {"group": 6}),
    "stride over kernel": (X4, weights(4, 6, 1, 1), {"strides": [3, 3]}),
    "big pads": (X4, weights(4, 6, 5, 5), {"pads": [4, 4, 4, 4]}),
    "1-D": (X3, weights(3, 4, 5), {"pads": [2, 2], "strides": [2]}),
    "3-D": (X5, weights(3, 4, 3, 3, 3), {"pads": [1] * 6, "strides": [1, 2, 1]}),
}


@pytest.mark.parametrize("case", CONVS)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(case: str, bias: bool) -> None:
    """A convolution over any box of rows, columns and channels equals the whole one's box."""
    x, w, attrs = CONVS[case]
    consts = {"w": w} | ({"b": weights(w.shape[0])} if bias else {})
    assert_boxes_equal(make_single("Conv", {"x": x}, consts, **attrs), {"x": x}, axes=[1, 2, 3, 4])


TRANSPOSED: dict[str, tuple[Array, Array, dict[str, Any]]] = {
    "stride 2": (X4, weights(6, 5, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output padding": (
        X4,
        weights(6, 5, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "stride over kernel": (X4, weights(6, 5, 2, 2), {"strides": [3, 3]}),
    "dilated": (X4, weights(6, 5, 3, 3), {"dilations": [2, 2], "strides": [2, 1]}),
    "groups": (X4, weights(6, 2, 3, 3), {"group": 3, "strides": [2, 2]}),
    "output shape": (X4, weights(6, 5, 3, 3), {"strides": [2, 2], "output_shape": [22, 18]}),
    "1-D": (X3, weights(4, 3, 4), {"strides": [2]}),
    "3-D": (X5, weights(4, 2, 2, 2, 2), {"strides": [2, 2, 2]}),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case: str) -> None:
    """A transposed convolution over any box equals the whole one's box."""
    x, w, attrs = TRANSPOSED[case]
    channels = w.shape[1] * attrs.get("group", 1)
    consts = {"w": w, "b": weights(channels)}
    model = make_single("ConvTranspose", {"x": x}, consts, **attrs)
    assert_boxes_equal(model, {"x": x}, axes=[1, 2, 3, 4])


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [1, 1], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [3, 2]},
]


@pytest.mark.parametrize("number", range(len(POOLS)))
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "AveragePool counted", "LpPool"])
def test_pool(op: str, number: int) -> None:
    """Pooling over any box equals the whole one's box, ceil mode and divisors included."""
    attrs = dict(POOLS[number])
    if op == "AveragePool counted":
        attrs["count_include_pad"] = 1
    if op == "LpPool" and "ceil_mode" in attrs:
        pytest.skip("LpPool has no ceil mode before opset 18")
    model = make_single(op.split()[0], {"x": X4}, opset=18, **attrs)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_max_pool_dilated() -> None:
    """Dilated pooling over any box equals the whole one's box."""
    attrs = {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]}
    assert_boxes_equal(make_single("MaxPool", {"x": X4}, **attrs), {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize(
    ("op", "other"),
    [
        ("Add", X4),
        ("Mul", weights(6, 1, 1)),
        ("Sub", weights(1)),
        ("Div", weights(1, 6, 11, 1) + 5),
        ("PRelu", weights(6, 1, 1)),
        ("Max", weights(11, 9)),
    ],
)
@pytest.mark.parametrize("constant", [True, False])
def test_broadcast(op: str, other: Array, constant: bool) -> None:
    """Broadcasting operands are cut where they vary and kept where they do not."""
    inputs = {"x": X4} | ({} if constant else {"z": other})
    consts = {"z": other} if constant else {}
    assert_boxes_equal(make_single(op, inputs, consts), inputs, axes=[0, 1, 2, 3])


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "HardSwish", "Softplus", "Erf", "Neg"])
def test_unary(op: str) -> None:
    """A pointwise operator over any box equals the whole one's box."""
    assert_boxes_equal(make_single(op, {"x": X4}), {"x": X4}, axes=[0, 1, 2, 3])


def test_clip() -> None:
    """Clip keeps its scalar limits whatever the box."""
    consts = {"low": np.float32(-0.3), "high": np.float32(0.4)}
    model = make_single("Clip", {"x": X4}, {k: np.asarray(v) for k, v in consts.items()})
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_concat(axis: int) -> None:
    """A box of a concatenation takes only the inputs that meet it."""
    inputs = {"a": X4, "b": X4 * 2, "c": -X4}
    assert_boxes_equal(make_single("Concat", inputs, axis=axis), inputs, axes=[1, 2, 3], count=12)


@pytest.mark.parametrize("axis", [1, 2])
def test_split(axis: int) -> None:
    """Boxes of the outputs of a split come from one hull of the input."""
    sizes = ints(2, 4) if axis == 1 else ints(4, 7)
    model = make_single("Split", {"x": X4}, {"sizes": sizes}, outputs=2, axis=axis)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        (ints(1), ints(9), ints(2), ints(1)),
        (ints(1, 0), ints(11, 9), ints(2, 3), ints(2, 3)),
        (ints(-8), ints(2**31 - 1), ints(-2), ints(1)),
        (ints(-1), ints(-(2**31)), ints(2), ints(-2)),
    ],
)
def test_slice(starts: Array, ends: Array, axes: Array, steps: Array) -> None:
    """Strided and reversed slices over any box equal the whole one's box."""
    consts = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    assert_boxes_equal(make_single("Slice", {"x": X4}, consts), {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode: str) -> None:
    """Padding of every kind happens only at true borders."""
    consts = {"pads": ints(0, 0, 3, 1, 0, 0, 2, 4)}
    model = make_single("Pad", {"x": X4}, consts, mode=mode)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3], count=20)


def test_pad_crops() -> None:
    """Negative pads crop."""
    consts = {"pads": ints(0, 0, -2, 1, 0, 0, 3, -1), "value": np.asarray(2.5, np.float32)}
    assert_boxes_equal(make_single("Pad", {"x": X4}, consts), {"x": X4}, axes=[1, 2, 3], count=20)


COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("size", [(22, 18), (33, 13), (5, 4), (11, 27)])
def test_resize(mode: str, coordinates: str, size: tuple[int, int]) -> None:
    """Resizing up and down in any coordinate mode is exact for any box."""
    consts = {"sizes": ints(1, 6, *size)}
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    model = make_single("Resize", {"x": X4}, consts, order=["x", "", "", "sizes"], **attrs)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resize_scales(nearest: str) -> None:
    """Fractional scales look where ONNX Runtime looks, for every rounding."""
    consts = {"scales": np.asarray([1, 1, 1.7, 2.0], np.float32)}
    model = make_single(
        "Resize", {"x": X4}, consts, order=["x", "", "scales"], mode="nearest", nearest_mode=nearest
    )
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_upsample() -> None:
    """The old upsampling operator works like resizing."""
    consts = {"scales": np.asarray([1, 1, 2, 3], np.float32)}
    model = make_single("Upsample", {"x": X4}, consts, opset=9, mode="nearest")
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [1, 3])
def test_softmax(op: str, axis: int) -> None:
    """Softmax needs its own axis whole and no other."""
    assert_boxes_equal(make_single(op, {"x": X4}, axis=axis), {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_of_old_models(opset: int) -> None:
    """Before opset 13 softmax runs over all axes from its own; the answer is kept."""
    model = make_single("Softmax", {"x": X4}, opset=opset, axis=1)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_lrn() -> None:
    """Local response normalisation looks across channels only."""
    assert_boxes_equal(make_single("LRN", {"x": X4}, size=3), {"x": X4}, axes=[1, 2, 3])


def test_normalisations() -> None:
    """Instance and layer normalisation need what they average over."""
    consts = {"s": weights(6), "b": weights(6)}
    model = make_single("InstanceNormalization", {"x": X4}, consts)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])
    consts = {"s": weights(9), "b": weights(9)}
    model = make_single("LayerNormalization", {"x": X4}, consts, axis=-1)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_batch_norm() -> None:
    """Batch normalisation takes the parameters of the box's channels."""
    consts = {"s": weights(6), "b": weights(6), "m": weights(6), "v": weights(6) ** 2 + 1}
    model = make_single("BatchNormalization", {"x": X4}, consts)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"])
def test_reduce(op: str, keep: int) -> None:
    """A reduction needs the reduced axes whole, whether they stay or not."""
    model = make_single(op, {"x": X4}, {"axes": ints(1, 3)}, keepdims=keep)
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2, 3])


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pool(op: str) -> None:
    """Global pooling keeps channels apart."""
    assert_boxes_equal(make_single(op, {"x": X4}), {"x": X4}, axes=[1])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    """Blocks of channels become rows; unaligned boxes are cropped."""
    x = RNG.standard_normal((1, 12, 5, 4), np.float32)
    model = make_single("DepthToSpace", {"x": x}, blocksize=2, mode=mode)
    assert_boxes_equal(model, {"x": x}, axes=[1, 2, 3])


def test_space_to_depth() -> None:
    """Rows become blocks of channels."""
    x = RNG.standard_normal((1, 3, 8, 6), np.float32)
    assert_boxes_equal(make_single("SpaceToDepth", {"x": x}, blocksize=2), {"x": x}, axes=[1, 2, 3])


def test_transpose() -> None:
    """Axes that change places keep their intervals."""
    model = make_single("Transpose", {"x": X4}, perm=[0, 2, 3, 1])
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2, 3])


@pytest.mark.parametrize(
    "target",
    [
        (1, 2, 3, 11, 9),
        (1, 6, 99),
        (1, -1),
        (6, 11, 9),
        (1, 6, 11, 3, 3),
        (66, 9),
        (1, 6, 11, 9, 1),
    ],
)
def test_reshape(target: tuple[int, ...]) -> None:
    """A reshape keeps the axes that survive divided, and widens where boxes do not align."""
    model = make_single("Reshape", {"x": X4}, {"shape": ints(*target)})
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2, 3, 4], count=20)


def test_flatten_and_squeeze() -> None:
    """Flatten, squeeze and unsqueeze are reshapes."""
    assert_boxes_equal(make_single("Flatten", {"x": X4}, axis=2), {"x": X4}, axes=[0, 1])
    model = make_single("Unsqueeze", {"x": X4}, {"axes": ints(0, 3)})
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2, 3, 4])
    model = make_single("Squeeze", {"x": X4}, {"axes": ints(0)})
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2])


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm(transposed: tuple[int, int]) -> None:
    """Rows and columns of a matrix product come from rows and columns of its operands."""
    a = X2.T.copy() if transposed[0] else X2
    b = weights(3, 8) if transposed[1] else weights(8, 3)
    attrs = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.5, "beta": 2.0}
    model = make_single("Gemm", {"a": a}, {"b": b, "c": weights(3)}, **attrs)
    assert_boxes_equal(model, {"a": a}, axes=[0, 1])


def test_matmul() -> None:
    """Stacked products broadcast over leading axes, with constant or computed operands."""
    a, b = weights(2, 3, 5, 4), weights(3, 4, 6)
    assert_boxes_equal(make_single("MatMul", {"a": a, "b": b}), {"a": a, "b": b}, axes=[0, 1, 2, 3])
    c = weights(4, 6)
    assert_boxes_equal(make_single("MatMul", {"a": a}, {"c": c}), {"a": a}, axes=[0, 1, 2, 3])


def test_gather() -> None:
    """Constant indices take the hull of what they name; other axes stay divided."""
    model = make_single("Gather", {"x": X4}, {"i": ints(3, 1, 4, 1)}, axis=2)
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])
    model = make_single("Gather", {"x": X4}, {"i": np.asarray(2, np.int64)}, axis=1)
    assert_boxes_equal(model, {"x": X4}, axes=[0, 1, 2])


def test_expand_and_tile() -> None:
    """Expanding and tiling keep the axes that are not repeated divided."""
    x = weights(1, 6, 1, 9)
    model = make_single("Expand", {"x": x}, {"shape": ints(1, 6, 11, 9)})
    assert_boxes_equal(model, {"x": x}, axes=[1, 2, 3])
    model = make_single("Tile", {"x": X4}, {"repeats": ints(1, 2, 1, 1)})
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_unknown_operator_is_a_barrier() -> None:
    """An operator without a rule runs whole and its answer is cropped."""
    model = make_single("CumSum", {"x": X4}, {"axis": np.asarray(2, np.int64)})
    node = load_graph(model).nodes[0]
    assert rule_of(node, 18).barrier
    assert_boxes_equal(model, {"x": X4}, axes=[1, 2, 3])


def test_a_planted_halo_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above fails when a convolution forgets one row of its halo."""
    from partita.graph.rules import window

    honest = window.part_of_axis

    def short(axis: window.AxisWindow, interval: tuple[int, int]) -> window.AxisPart:
        part = honest(axis, interval)
        start, stop = part.need
        if axis.kernel < 3 or start == 0 or interval == (0, axis.out_extent):
            return part
        return window.AxisPart((start + 1, stop), (1, part.pads[1]), part.computed)

    monkeypatch.setattr(window, "part_of_axis", short)
    x, w, attrs = CONVS["plain"]
    with pytest.raises(AssertionError):
        assert_boxes_equal(make_single("Conv", {"x": x}, {"w": w}, **attrs), {"x": x}, axes=[2])


@pytest.mark.parametrize(("axis", "size"), [(1, 4), (-1, 3), (0, 2)])
@pytest.mark.parametrize("op", ["DequantizeLinear", "QuantizeLinear"])
def test_quantised_in_blocks(op: str, axis: int, size: int) -> None:
    """A scale per block of elements: boxes that begin and end inside of blocks."""
    given = X2 if op == "QuantizeLinear" else RNG.integers(-99, 99, X2.shape).astype(np.int8)
    shape = list(X2.shape)
    shape[axis] = -(-shape[axis] // size)
    consts = {
        "scale": RNG.uniform(0.5, 2, shape).astype(np.float32),
        "zero": RNG.integers(-5, 5, shape).astype(np.int8),
    }
    model = make_single(op, {"x": given}, consts, opset=21, axis=axis, block_size=size)
    assert_boxes_equal(model, {"x": given}, axes=[0, 1])
