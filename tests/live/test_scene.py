"""What is known of a plan before it runs."""

from __future__ import annotations

import pytest
from tests.planners.test_gains import two
from tests.planners.test_sizing import PI3

from partita.live import foresee, make_scene
from partita.planners import PlanOptions, find_plan
from partita.simulation import predict


def test_a_scene_has_what_the_simulation_says_of_every_second() -> None:
    """Busy shares are those of the predicted run; bytes over rates are shares of the links."""
    cost = two(rate=1e6)
    plan = find_plan(cost, planner="single", options=PlanOptions(in_flight=2)).plan
    predicted = predict(cost, plan, requests=16)
    scene = make_scene("net on two", plan, cost.cluster, predicted)
    assert scene.expected is not None
    assert scene.expected.images_per_s == predicted.images_per_second
    busy = {use.name: use.busy_s / predicted.makespan_s for use in predicted.devices}
    assert scene.expected.busy == pytest.approx(busy)
    moved = {(a, b): rate for a, b, rate in scene.expected.bytes_per_s}
    assert moved["cam", "board"] == pytest.approx(predicted.images_per_second * 8 * 64 * 64 * 4)
    assert ("cam", "board", 1e6) in scene.rates
    assert make_scene("net", plan, cost.cluster, None).expected is None


def test_advice_is_what_a_plan_for_more_of_a_lane_gains() -> None:
    """One more board like the only one nearly halves the time per answer, beside fast links."""
    cost = two()
    options = PlanOptions(objective="throughput", in_flight=2)
    plan = find_plan(cost, planner="single", options=options).plan
    foresight = foresee(cost, plan, most_s=4.0)
    advice = dict(foresight.advice)
    gains = {gain.name: gain.gain for gain in foresight.gains}
    gain = gains[f"one more {PI3}"]
    assert advice["board",] == f"one more board like it would give {gain:.2g}x"
    assert gain > 1.5
    assert advice["cam", "board"] == "every link 2x as fast would gain nothing"
    assert ("cam",) not in advice  # it only asks: one more of it computes nothing
    listed = [gain.gain for gain in foresight.gains]
    assert listed == sorted(listed, reverse=True)
