"""Steps that SCALE-Sim 3.0.0 counts for convolutions: the golden file of tests/cost/test_systolic.

SCALE-Sim needs an environment of its own, since NumPy above 2.2 breaks it:

    python -m venv scale && scale/bin/pip install scalesim==3.0.0 'numpy<2.3'
    python -m tools.scale_sim scale/bin/python > tests/cost/scale_sim.csv

Layers are given as the convolutions that SCALE-Sim reads, inputs with their pads; a matrix product
is a convolution of 1 x 1. Of a layer with groups, one group is counted.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from dataclasses import astuple, dataclass
from pathlib import Path

from partita.cluster import find_entry

KINDS = ("eyeriss", "tpu-v1")
DATAFLOWS = ("os", "ws", "is")


@dataclass(frozen=True)
class Convolution:
    """A layer of a zoo model as SCALE-Sim has it: square windows, pads included in the input."""

    model: str
    layer: str
    height: int
    width: int
    kernel: int
    channels: int
    filters: int
    stride: int


LAYERS = (
    Convolution("mobilenet_v2", "stem.conv", 225, 225, 3, 3, 32, 2),
    Convolution("mobilenet_v2", "block1.depthwise.conv", 114, 114, 3, 1, 1, 1),
    Convolution("mobilenet_v2", "block1.project.conv", 112, 112, 1, 32, 16, 1),
    Convolution("mobilenet_v2", "block13.depthwise.conv", 16, 16, 3, 1, 1, 1),
    Convolution("mobilenet_v2", "block17.project.conv", 7, 7, 1, 960, 320, 1),
    Convolution("mobilenet_v2", "classifier", 1, 1, 1, 1280, 1000, 1),
    Convolution("resnet18", "layer2.0.conv1", 57, 57, 3, 64, 128, 2),
    Convolution("resnet18", "layer4.0.downsample.0", 13, 13, 1, 256, 512, 2),
    Convolution("resnext50_32x4d", "layer3.1.conv2", 16, 16, 3, 16, 16, 1),
    Convolution("googlenet", "inception4a.five.2.conv", 16, 16, 3, 16, 48, 1),
    Convolution("googlenet", "inception5a.one.conv", 7, 7, 1, 832, 256, 1),
    Convolution("yolov3_tiny", "detections1", 13, 13, 1, 512, 255, 1),
)

_CONFIG = """
[general]
run_name = run
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: {sram}
FilterSramSzkB: {sram}
OfmapSramSzkB: {sram}
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: {dataflow}
Bandwidth: 10
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def count_steps(python: str, kind: str, dataflow: str) -> list[int]:
    """The steps of each of ``LAYERS`` on a kind's grid; memory is as fast as needed."""
    array = find_entry(kind).array
    if array is None:
        raise SystemExit(f"Kind {kind!r} is no systolic array.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = _CONFIG.format(rows=array.rows, columns=array.columns, dataflow=dataflow, sram=6144)
        (folder / "array.cfg").write_text(text)
        lines = ["name, ifmap h, ifmap w, filter h, filter w, channels, filters, stride,"]
        for layer in LAYERS:
            sizes = (layer.height, layer.width, layer.kernel, layer.kernel, layer.channels)
            row = (layer.layer, *sizes, layer.filters, layer.stride)
            lines.append(", ".join(map(str, row)) + ",")
        (folder / "layers.csv").write_text("\n".join(lines) + "\n")
        command = [python, "-m", "scalesim.scale", "-c", "array.cfg", "-t", "layers.csv"]
        command += ["-l", "layers.csv", "-p", "out", "-i", "conv", "-s", "N"]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        (report,) = folder.glob("out/**/COMPUTE_REPORT.csv")
        with report.open(newline="") as file:
            rows = list(csv.reader(file, skipinitialspace=True))
        place = rows[0].index("Total Cycles")
        return [round(float(row[place])) for row in rows[1:]]


def main() -> None:
    """Write one line per array, dataflow and layer to the standard output."""
    (python,) = sys.argv[1:]
    out = csv.writer(sys.stdout, lineterminator="\n")
    head = ("model", "layer", "height", "width", "kernel", "channels", "filters", "stride")
    out.writerow(("kind", "dataflow", *head, "steps"))
    for kind in KINDS:
        for dataflow in DATAFLOWS:
            for layer, steps in zip(LAYERS, count_steps(python, kind, dataflow), strict=True):
                out.writerow((kind, dataflow, *astuple(layer), steps))


if __name__ == "__main__":
    main()
