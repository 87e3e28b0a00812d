"""Operations and moved elements against figures worked out by hand for VGG-16."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from partita.compile.account import work_macs
from partita.graph import Window
from partita.planners.distredge.account import Account, Counter
from partita.planners.distredge.intervals import Rows, RowTables, Spans
from partita.planners.distredge.places import Volume
from partita.planners.drafts.draft import DraftLowering, DraftStage
from tests.planners.distredge.vgg import BLOCKS, CONVOLUTIONS, LAYERS, vgg16

#: Multiply-accumulates of VGG-16's thirteen convolutions at 224 x 224.
WHOLE = 15_346_630_656


def _count(starts: Sequence[int], parts: int) -> Account:
    def cut(_: int, rows: int) -> Rows:
        return np.array([[rows * part // parts for part in range(parts + 1)]])

    stops = (*starts[1:], LAYERS)
    volumes = [Volume(*pair) for pair in zip(starts, stops, strict=True)]
    return Counter(RowTables(vgg16()), cut).count(volumes)


@pytest.mark.parametrize(
    ("starts", "parts", "ratio"),
    [((0,), 2, 1.5974), ((0,), 7, 4.1694), (CONVOLUTIONS, 2, 1.0), (BLOCKS, 2, 1.0399)],
)
def test_operations_count_rows_computed_twice(
    starts: Sequence[int], parts: int, ratio: float
) -> None:
    """One volume in two and seven parts, one per convolution, and five, as worked out by hand."""
    assert _count(starts, parts).operations / WHOLE == pytest.approx(ratio, abs=1e-4)


@pytest.mark.parametrize(
    ("starts", "halo", "scatter"),
    [
        (CONVOLUTIONS, 258_048, 151_872),
        (range(LAYERS), 265_216, 151_872),
        (BLOCKS, 157_696, 153_216),
    ],
)
def test_halos_between_two_halves(starts: Sequence[int], halo: int, scatter: int) -> None:
    """Elements that two halves send each other, and that the requester sends."""
    account = _count(tuple(starts), 2)
    assert account.halo_elements == halo
    assert account.scatter_elements == scatter
    assert account.gather_elements == 512 * 7 * 3
    assert account.moved_elements == halo + scatter + 512 * 7 * 3


def law_rows(windows: Sequence[Window], rows: int) -> int:
    """The rows of input that the published law asks for (equations 1 and 2)."""
    for window in reversed(windows):
        rows = (rows - 1) * window.stride[0] + window.kernel[0]
    return rows


def test_published_law_ignores_borders() -> None:
    """One row needs 212 rows; seven need 404 of an image that has 224 (equations 1 and 2)."""
    outline = vgg16()
    layers = [outline.graph.layer(name) for name in outline.layers(0, LAYERS)]
    windows = [layer.window for layer in layers if layer.window is not None]
    assert [law_rows(windows, rows) for rows in (1, 2, 3, 4, 7)] == [212, 244, 276, 308, 404]


@pytest.mark.parametrize(
    ("rows", "needs"),
    [((0, 1), (0, 122)), ((3, 4), (6, 218)), ((0, 2), (0, 154)), ((4, 6), (38, 224)),
     ((6, 7), (102, 224)), ((2, 2), (0, 0))],
)  # fmt: skip
def test_exact_rows_of_the_last_pool(rows: tuple[int, int], needs: tuple[int, int]) -> None:
    """Rows of the image that rows of the last pool need, clipped at the image's borders."""
    outline = vgg16()
    tables = RowTables(outline)
    spans = Spans.of_cuts([rows])
    for name in reversed(outline.layers(0, LAYERS)):
        layer = outline.graph.layer(name)
        (found,) = tables.needs(layer, {layer.outputs[0]: spans}).values()
        assert found is not None
        spans = found
    assert (int(spans.start[0, 0]), int(spans.stop[0, 0])) == needs


@pytest.mark.parametrize("start", [0, 3, 7, 14])
def test_tables_say_what_works_say(start: int) -> None:
    """Rows by table are those of the work that a device would run."""
    outline = vgg16()
    height = outline.rows(start, LAYERS)
    stage = DraftStage(start, LAYERS, "rows", ("a", "b", "c"), (0, 2, 5, height))
    counter = Counter(RowTables(outline), lambda *_: np.array([stage.cuts]))
    tensor = outline.live(start)[0]
    boxes = [DraftLowering(outline).boxes(stage, number) for number in range(3)]
    works = [outline.works.stage(outline.layers(start, LAYERS), box) for box in boxes]
    read = sum(work.inputs[0][1].size for work in works)
    account = counter.count([Volume(start, LAYERS)])
    if start == 0:
        assert account.scatter_elements == read
    macs = sum(work_macs(outline.graph, work) for work in works)
    assert account.operations == pytest.approx(macs, rel=1e-12)
    assert works[0].inputs[0][0] == tensor
