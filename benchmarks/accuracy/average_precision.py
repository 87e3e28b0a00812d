"""Mean average precision of a detector over bounds .5 to .95 of overlap, as COCO defines it.

Source: Lin et al. 2014 ("Microsoft COCO: common objects in context") and the detection metrics that
its authors publish: detections of a class in all images, the surest first, take the box of truth
that they overlap most among those not yet taken, if by the bound at least; precision is read at
101 recalls, each as the best at this recall or above; the mean is over classes that are there, and
bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Least intersection over union with which a detection is right.
BOUNDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Boxes:
    """What is on one image, or was found there.

    Attributes:
        corners: Left, top, right, bottom of each, (n, 4).
        classes: Of each, (n,).
        scores: How sure a detection is, (n,); nothing of truth.
    """

    corners: Floats
    classes: npt.NDArray[np.int64]
    scores: Floats

    def of(self, kind: int) -> Boxes:
        """Those of one class, the surest first."""
        places = np.flatnonzero(self.classes == kind)
        places = places[np.argsort(-self.scores[places], kind="stable")]
        return Boxes(self.corners[places], self.classes[places], self.scores[places])


def mean_average_precision(truth: Sequence[Boxes], found: Sequence[Boxes]) -> float:
    """The mean over classes and bounds, 0 to 1.

    Args:
        truth: Of each image.
        found: Of each image, in the same order.

    Raises:
        ValueError: There is no box of truth.
    """
    kinds = np.unique(np.concatenate([boxes.classes for boxes in truth]))
    if not kinds.size:
        raise ValueError("there is no box of truth: precision has nothing to compare with")
    pairs = list(zip(truth, found, strict=True))
    return float(np.mean([_precisions(pairs, int(kind)) for kind in kinds]))


def _precisions(pairs: Sequence[tuple[Boxes, Boxes]], kind: int) -> list[float]:
    """The average precision of a class by bound."""
    images = [(true.of(kind), found.of(kind)) for true, found in pairs]
    overlaps = [overlap_all(found.corners, true.corners) for true, found in images]
    scores = np.concatenate([found.scores for _, found in images])
    order = np.argsort(-scores, kind="stable")
    count = sum(len(true.scores) for true, _ in images)
    precisions = []
    for bound in BOUNDS:
        right = np.concatenate([_match(table, bound) for table in overlaps])[order]
        precisions.append(_average(right, count))
    return precisions


def _match(overlaps: Floats, bound: float) -> npt.NDArray[np.bool_]:
    """Which detections, the surest first, take a box of truth that no surer one has taken."""
    right = np.zeros(len(overlaps), bool)
    free = np.ones(overlaps.shape[1], bool)
    for place, row in enumerate(overlaps):
        reach = np.where(free, row, -1.0)
        best = int(reach.argmax()) if reach.size else 0
        if reach.size and reach[best] >= bound:
            right[place], free[best] = True, False
    return right


def _average(right: npt.NDArray[np.bool_], count: int) -> float:
    """The mean of the precisions at 101 recalls.

    Args:
        right: Of each detection, the surest first.
        count: Boxes of truth.
    """
    hits = np.cumsum(right)
    recall = hits / count
    precision = hits / np.arange(1, len(right) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(recall, _RECALLS, side="left")
    return float(np.append(best, 0.0)[np.minimum(places, len(best))].mean())


def overlap_all(one: Floats, other: Floats) -> Floats:
    """Intersection over union of every box with every other, (n, m)."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (one, other)]
    union = areas[0][:, None] + areas[1][None] - common
    return np.asarray(common / np.maximum(union, 1e-12))
