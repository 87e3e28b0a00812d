"""How well plates were read: all characters of a plate, and each character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partita.demo.detector import Box
from partita.demo.photo import DrawnPlate
from partita.demo.reader import PlateRead

#: Least intersection over union at which a plate that was found is the one drawn there: the usual
#: bound of detectors.
_LEAST_OVERLAP = 0.5


@dataclass(frozen=True)
class PlateScore:
    """Plates drawn, and what became of them; scores of several photos add up.

    Attributes:
        plates: How many were drawn.
        found: How many of them the detector found.
        exact: How many of them were read without a fault.
        characters: How many were drawn on all plates.
        wrong: How many of these must be changed, put in or left out to make of each plate's text
            what was read; of a plate that was not found all of them.
    """

    plates: int = 0
    found: int = 0
    exact: int = 0
    characters: int = 0
    wrong: int = 0

    def __add__(self, other: PlateScore) -> PlateScore:
        return PlateScore(
            self.plates + other.plates,
            self.found + other.found,
            self.exact + other.exact,
            self.characters + other.characters,
            self.wrong + other.wrong,
        )

    @property
    def plate_accuracy(self) -> float:
        """The part of plates that were read without a fault."""
        return self.exact / self.plates

    @property
    def character_accuracy(self) -> float:
        """The part of characters that were read right."""
        return 1 - self.wrong / self.characters


def score_plates(drawn: Sequence[DrawnPlate], read: Sequence[PlateRead]) -> PlateScore:
    """The score of one photo: each drawn plate is compared with what was read where it is."""
    total = PlateScore()
    for plate in drawn:
        overlaps = [overlap(plate.box, one.detection.box) for one in read]
        best = int(np.argmax(overlaps)) if overlaps else 0
        is_found = bool(overlaps) and overlaps[best] >= _LEAST_OVERLAP
        text = read[best].text if is_found else ""
        wrong = min(edit_distance(plate.text, text), len(plate.text))
        total += PlateScore(1, int(is_found), int(text == plate.text), len(plate.text), wrong)
    return total


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes: left, top, right, bottom."""
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return width * height / max(sum(areas) - width * height, 1e-12)


def edit_distance(one: str, other: str) -> int:
    """The fewest characters to change, put in or leave out (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for place, character in enumerate(one, start=1):
        before, row[0] = row[0], place
        for column, wanted in enumerate(other, start=1):
            cheapest = min(row[column] + 1, row[column - 1] + 1, before + (character != wanted))
            before, row[column] = row[column], cheapest
    return row[-1]
