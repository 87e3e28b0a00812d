"""What 'AUTO-SPLIT: a general framework of collaborative edge-cloud AI' runs on, and what it says.

Section 5 and appendix B: Eyeriss at the edge, a TPU in the cloud, an uplink of 3 Mbit/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from partita.quantisation import CodeOptions
from partita.reproduce.figure import Paper

PAPER = Paper("autosplit", ("models", "images", "real", "cache"))
EDGE, CLOUD = "eyeriss", "tpu-v1"
#: Of numbers that are not quantised, and of the input's.
FLOAT_BITS, INPUT_BITS = 16, 8
#: The paper's candidate widths (remark 1).
WIDTHS = (2, 4, 6, 8)
#: Least signal-to-noise ratio of a network's outputs where weights are drawn and no accuracy is to
#: be had.
LEAST_DB = 20.0
#: The paper's quantisers leave biases as they are.
CODES = CodeOptions(corrects_bias=False)

#: Where the whole answer is computed, or whether the network is cut.
Kind = Literal["cloud", "edge", "split"]


@dataclass(frozen=True)
class Sizes:
    """A row of Table 2: the last layer on the edge, and megabytes there.

    Attributes:
        split: AUTO-SPLIT's.
        qdmp_split: That of QDMP_E, and of QDMP_E+U4.
        slip: What the printed numbers cannot be; empty where they can.
    """

    split: int
    mb: float
    qdmp_split: int
    qdmp_mb: float
    u4_mb: float
    slip: str = ""


@dataclass(frozen=True)
class Said:
    """What the paper says of a model.

    Attributes:
        name: In the zoo.
        kind: AUTO-SPLIT's answer (section 5.3, appendix B).
        detects: Whether it finds objects.
        sizes: Of Table 2, where it has the model.
    """

    name: str
    kind: Kind
    detects: bool = False
    sizes: Sizes | None = None


MODELS = {
    said.name: said
    for said in (
        Said("resnet18", "edge"),
        Said("resnet50", "split", sizes=Sizes(12, 0.9, 53, 50, 12.5)),
        Said(
            "googlenet",
            "split",
            sizes=Sizes(18, 0.4, 18, 3.5, 0.44, "a quarter of 16 bits' size is no eighth of it"),
        ),
        Said("resnext50_32x4d", "cloud"),
        Said("mobilenet_v2", "edge"),
        Said("mnasnet1_0", "edge"),
        Said(
            "yolov3_tiny",
            "split",
            detects=True,
            sizes=Sizes(7, 8.8, 7, 18.2, 4.44, "four times U4's 4.44 MB are 17.8, not 18.2"),
        ),
        Said("yolov3", "split", detects=True, sizes=Sizes(33, 13.3, 58, 118, 29.6)),
        Said(
            "yolov3_spp",
            "split",
            detects=True,
            sizes=Sizes(1, 1.3, 52, 99, 22.2, "four times U4's 22.2 MB are 88.9, not 99"),
        ),
        Said("faster_rcnn", "cloud", detects=True),
    )
}
#: Those of Figure 6 and the means over it: the text tells of the last one in appendix B alone.
COMPARED = tuple(name for name in MODELS if name != "faster_rcnn")


@dataclass(frozen=True)
class Setting:
    """What the paper gives, or leaves open.

    Attributes:
        uplink_mbit_s: Megabits per second from the edge to the cloud.
        edge_bytes: Memory of the edge, for weights and the largest working set (equation 3).
        wide_steps: Steps of an array for a multiplication of 16 bits; the paper gives none.
        sends_one: Whether a cut sends what the layer before it makes and nothing else, as equation
            1 and Table 2 have it: a network with branches cannot run so.
    """

    uplink_mbit_s: float = 3.0
    edge_bytes: float = inf
    wide_steps: int = 1
    sends_one: bool = False


def pick_models(asked: Sequence[str], names: Sequence[str] = COMPARED) -> tuple[str, ...]:
    """The models of ``names`` that are asked for; all when none is."""
    return tuple(name for name in names if not asked or name in asked)
