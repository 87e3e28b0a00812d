"""Costs of divided layers, against numbers that were worked out apart from this code."""

from __future__ import annotations

from partita.compile.split_costs import (
    LayerShape,
    by_inputs,
    by_outputs,
    by_positions,
    communication,
    undivided,
)


def same_conv(size: int, inputs: int, outputs: int, kernel: int) -> LayerShape:
    """Return a convolution with same padding."""
    pads = ((kernel // 2, kernel // 2),) * 2
    return LayerShape(inputs, outputs, (size,) * 2, (kernel,) * 2, (1, 1), (1, 1), pads)


def overhead(shape: LayerShape, nodes: list) -> int:  # type: ignore[type-arg]
    """Return the elements that a division moves beyond those of the whole layer."""
    return communication(nodes) - communication([undivided(shape)])


def test_a_dense_layer_on_two_nodes() -> None:
    """VGG-16's first: each node holds half of the weights; inputs are copied, or sums added."""
    shape = LayerShape(25088, 4096)
    outputs, inputs = by_outputs(shape, [2048] * 2), by_inputs(shape, [12544] * 2)
    assert [node.weights for node in (*outputs, *inputs)] == [51_380_224] * 4
    assert communication([undivided(shape)]) == 29_184
    assert communication(outputs) == 54_272
    assert communication(inputs) == 33_280
    assert overhead(shape, outputs) == 25_088
    assert overhead(shape, inputs) == 4_096


def test_a_convolution_on_three_nodes() -> None:
    """128 x 128 maps, 64 to 128 channels, 3 x 3: copies, partial sums, and halos."""
    shape = same_conv(128, 64, 128, 3)
    assert overhead(shape, by_outputs(shape, [43, 43, 42])) == 2_097_152
    assert overhead(shape, by_inputs(shape, [22, 22, 20])) == 4_194_304
    assert overhead(shape, by_positions(shape, [[43, 43, 42], [128]])) == 32_768


def test_grids_of_convolutions() -> None:
    """The halos of all tiles together, for windows of 3, 5 and 9."""
    for kernel, parts, more in ((3, [64, 64], 33_024), (5, [64, 64], 66_560)):
        shape = same_conv(128, 64, 128, kernel)
        assert overhead(shape, by_positions(shape, [parts, parts])) == more
    shape = same_conv(128, 64, 128, 9)
    thirds = [43, 43, 42]
    assert overhead(shape, by_positions(shape, [thirds, thirds])) == 278_528
