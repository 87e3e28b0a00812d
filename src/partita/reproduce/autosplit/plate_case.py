"""The licence-plate case: who reads a plate where, what that takes, and how often it is right.

Section 5.5 of the paper has a camera at a gate. Here detector, crop and reader are one network,
which is cut anywhere; photos are drawn, so that the truth is known. Samples that ranges are found
on, photos that plans are judged by and photos that the table counts are of different seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from partita.compile import planned_graph
from partita.compile.account import DeviceAccount, account_layout
from partita.cost import CostModel
from partita.demo.cascade import cascade_graph, part_of, read_answer
from partita.demo.conditions import VARIED
from partita.demo.detector import IMAGE_INPUT, Pixels, detector_model, image_to_input
from partita.demo.photo import DrawnPlate, draw_photo
from partita.demo.reader import PLATE_READER, TEXT_READER, Reader
from partita.demo.score import PlateScore, score_plates
from partita.errors import ModelError, PlanError
from partita.graph import Graph
from partita.graph.whole import WholeModel
from partita.plan import Plan
from partita.planners import PlanOptions, find_plan
from partita.quantisation import (
    QuantisationData,
    collect_ranges,
    measure_shares,
    tabulate_errors,
)
from partita.quantisation.samples import Feeds
from partita.regions import Array, decode_array, encode_array
from partita.reproduce.autosplit.setting import CODES

#: Photos of samples and those that plans are judged by, and the first seeds of both.
SAMPLES, FIRST_SAMPLE = 16, 10_000
JUDGED, FIRST_JUDGED = 40, 20_000
#: Most by which a plan may be less accurate: the paper's, of classifiers.
DROP = 0.05
#: Bits of the edge, in the case as in the paper: 8 of all.
WIDTH = 8
#: Quality of the photo where it is compressed: the paper's best (Table 7).
JPEG = "jpeg80"
CAMERA, CLOUD = "camera", "cloud"

Photo = tuple[Pixels, list[DrawnPlate]]


@dataclass(frozen=True)
class Way:
    """A row of the table: how the case is solved.

    Attributes:
        paper: Accuracy in percent, milliseconds and megabytes on the edge, as printed.
        bits: Of what the edge computes with, if that is not floats.
        photo: Wire format of the photo, if it is not to travel as it is.
    """

    name: str
    planner: str
    paper: tuple[float | None, float | None, float | None] = (None, None, None)
    reader: Reader = PLATE_READER
    bits: int | None = None
    photo: str | None = None


FLOAT_EDGE = Way("Float (on edge)", "edge_only", (88.2, None, 295))
FLOAT_CLOUD = Way("Float (to cloud)", "cloud_only", (88.2, 970, 0))
JPEG_CLOUD = Way("Float (to cloud), photo as JPEG", "cloud_only", photo=JPEG)
TQ = Way("TQ (8 bit)", "edge_only", (88.4, 2840, 44), bits=WIDTH)
SPLIT = Way("AUTO-SPLIT", "autosplit", (88.3, 630, 15), bits=WIDTH)
LARGE_SPLIT = Way(
    "AUTO-SPLIT (large reader)", "autosplit", (94, 650, 15), reader=TEXT_READER, bits=WIDTH
)
WAYS = (FLOAT_EDGE, FLOAT_CLOUD, JPEG_CLOUD, TQ, SPLIT, LARGE_SPLIT)


@dataclass(frozen=True)
class Solved:
    """A way in a setting.

    Attributes:
        plan: None where there is none; ``fault`` says why.
        latency_s: Predicted, from photo to text.
        edge_bytes: Weights that the camera stores, codes packed.
        sent_bytes: Of one photo, from the camera.
    """

    way: Way
    plan: Plan | None = None
    fault: str = ""
    latency_s: float = 0.0
    edge_bytes: int = 0
    sent_bytes: float = 0.0

    @property
    def edge(self) -> str:
        """What of the cascade the camera computes, in words."""
        return "" if self.plan is None else describe_edge(self.plan)


class Cascade:
    """The network with one of the readers, and what samples say of it."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    @cached_property
    def graph(self) -> Graph:
        """Detector, crop and reader."""
        return cascade_graph(self.reader)

    @cached_property
    def samples(self) -> list[Feeds]:
        """Inputs that ranges are found on."""
        return [feeds_of(draw(seed)[0]) for seed in range(FIRST_SAMPLE, FIRST_SAMPLE + SAMPLES)]

    @cached_property
    def data(self) -> QuantisationData:
        """Ranges and errors; where a plate lies in the photo is computed in floats."""
        ranges = collect_ranges(self.graph, self.samples)
        errors = tabulate_errors(self.graph, ranges, (WIDTH,))
        rounded = {
            name: error for name, error in errors.activations.items() if part_of(name) != "crop"
        }
        weights = {name: e for name, e in errors.weights.items() if part_of(name) != "crop"}
        kept = type(errors)(weights, rounded, errors.measure)
        return QuantisationData(kept, ranges, CODES)

    def score(self, plan: Plan, photos: Sequence[Photo]) -> PlateScore:
        """What the network as a plan has it reads on photos."""
        model = WholeModel(planned_graph(self.graph, plan))
        wire, total = plan.wires.get(IMAGE_INPUT, "raw"), PlateScore()
        for pixels, drawn in photos:
            sent = travel(image_to_input(pixels), wire)
            answer = model.run({IMAGE_INPUT: sent})
            total += score_plates(drawn, read_answer(self.reader, answer))
        return total


def travel(image: Array, wire: str) -> Array:
    """A photo after it has been sent."""
    payload = encode_array(image, wire)
    return decode_array(payload, image.shape, str(image.dtype), wire)


@lru_cache(maxsize=1024)
def draw(seed: int) -> Photo:
    """A photo of one plate."""
    return draw_photo(seed, plates=1, conditions=VARIED)


def draw_photos(count: int, first: int = 0) -> list[Photo]:
    """Photos of seeds that follow each other."""
    return [draw(seed) for seed in range(first, first + count)]


def feeds_of(pixels: Pixels) -> Feeds:
    """A photo as a request."""
    return {IMAGE_INPUT: image_to_input(pixels)}


@lru_cache(maxsize=2)
def cascade_of(reader: Reader) -> Cascade:
    """The cascade with a reader: read, run and tabulated once."""
    return Cascade(reader)


def solve(way: Way, cost: CostModel) -> Solved:
    """The plan that a way finds in a setting.

    AUTO-SPLIT cuts in the order of layers; beside that it is asked for the best cut where the photo
    does not leave the camera, so that the plate is cut out there and what is before and after that
    may be anywhere.

    Args:
        cost: Of the way's cascade on camera and cloud.
    """
    options = _options(way)
    asked = [options]
    if way.planner == "autosplit":
        asked.append(replace(options, keep_on={IMAGE_INPUT: CAMERA}))
    results, fault = [], ""
    for one in asked:
        try:
            results.append(find_plan(cost, planner=way.planner, options=one))
        except PlanError as error:
            fault = str(error)
    if not results:
        return Solved(way, fault=fault)
    best = min(results, key=lambda result: result.latency_s)
    account = account_plan(cost, best.plan)
    return Solved(way, best.plan, "", best.latency_s, account.stored_bytes, account.sent_bytes)


def account_plan(cost: CostModel, plan: Plan) -> DeviceAccount:
    """What the camera holds and sends."""
    priced = cost.of(planned_graph(cost.graph, plan))
    return account_layout(priced.graph, priced.layout(plan)).devices[CAMERA]


def _options(way: Way) -> PlanOptions:
    cascade = cascade_of(way.reader)
    judged = draw_photos(JUDGED, FIRST_JUDGED)
    # Uniform bits, as the paper has them here: Algorithm 1 as it is printed leaves no layer alone.
    rounds = {"edge_only": ("bits", str(way.bits)), "autosplit": ("as_printed", "true")}
    key, value = rounds.get(way.planner, ("", ""))
    return PlanOptions(
        quantisation=cascade.data if way.bits else None,
        integer_kernels=bool(way.bits),
        judge=lambda plan: cascade.score(plan, judged).plate_accuracy,
        accuracy_drop=DROP,
        wires={IMAGE_INPUT: way.photo} if way.photo else {},
        payloads=partial(measure_shares, cascade.samples),
        method={f"{way.planner}.{key}": value} if way.bits else {},
    )


def list_ways(ways: Sequence[Way] = WAYS) -> tuple[list[Way], list[str]]:
    """The ways whose trained networks are installed, and what is to be done for the others."""
    known, faults = list[Way](), dict[str, None]()
    for way in ways:
        try:
            detector_model()
            way.reader.model()
        except ModelError as error:
            faults[f"{way.name} is left out: {error}"] = None
        else:
            known.append(way)
    return known, list(faults)


def describe_edge(plan: Plan) -> str:
    """What of the cascade the camera computes, in words."""
    found: dict[str, set[str]] = {}
    for stage in plan.stages:
        for layer in stage.layers:
            devices = found.setdefault(part_of(layer), set())
            devices.update(shard.device for shard in stage.shards)
    words = [
        part if devices == {CAMERA} else f"part of the {part}"
        for part, devices in found.items()
        if CAMERA in devices
    ]
    return ", ".join(words) or "nothing"
