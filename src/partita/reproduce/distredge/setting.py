"""What the DistrEdge paper's evaluation has in common."""

from __future__ import annotations

from partita.reproduce.figure import Paper

PAPER = Paper("distredge", ("models", "seeds", "episodes", "budget", "images", "repeats", "cache"))
MAIN_MODEL = "vgg16"
#: The models of Figures 9 and 10, in the paper's order.
MODELS = (
    "vgg16",
    "resnet50",
    "inception_v3",
    "yolov2",
    "ssd_resnet50",
    "ssd_vgg16",
    "openpose",
    "voxelnet",
)
#: Share of operations and of transmission in the score of a partition (Figure 4).
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: Random split decisions per score (Figure 5).
DRAWS = (25, 50, 100, 150, 200)
