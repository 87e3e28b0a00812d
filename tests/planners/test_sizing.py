"""How many boards a wish takes."""

from __future__ import annotations

import pytest

from partita.cluster import Cluster, Device, Link
from partita.cost import CostModel
from partita.errors import InfeasibleError
from partita.graph import Graph
from partita.planners import PlanOptions, Result, sizing
from partita.planners.sizing import Sized, Wish, offered, size_clusters
from partita.simulation import predict
from tests.planners.fakes import conv, make_graph

PI3, PI4 = "raspberry-pi-3", "raspberry-pi-4"


def make_network() -> Graph:
    """Two convolutions that take a Pi a while."""
    parts = [*conv("a", "x", "m", (32, 8, 3, 3)), *conv("b", "m", "y", (32, 32, 3, 3))]
    return make_graph(parts, {"x": (1, 8, 64, 64)}, ["y"])


def offer(*kinds: str, camera: bool = True) -> CostModel:
    """A camera that only asks, if wanted, and one board of each kind."""
    devices = [Device("cam", kind=PI3, computes=False)] if camera else []
    devices += [Device(f"b{n}", kind=kind) for n, kind in enumerate(kinds)]
    cluster = Cluster.of(devices, bandwidth_bytes_per_s=1e9, latency_s=1e-5)
    return CostModel(make_network(), cluster)


def size(cost: CostModel, wish: Wish, most: int = 16) -> dict[str, Sized]:
    """What each kind takes."""
    found = size_clusters(cost, wish, "collaborative", most=most)
    return {sized.kind: sized for sized in found}


def test_a_wish_takes_as_many_boards_as_fulfil_it() -> None:
    """Five times what one board answers takes five or six; one fewer does not do."""
    one = size(offer(PI3), Wish(per_second=1e-3))[PI3]
    assert one.count == 1
    assert one.result is not None
    rate = one.result.estimate.images_per_second
    sized = size(offer(PI3), Wish(per_second=5 * rate))[PI3]
    assert sized.is_met
    assert sized.count in (5, 6)
    assert sized.result is not None
    simulated = predict(sized.cost, sized.result.plan, requests=20 * sized.count)
    assert simulated.images_per_second >= 0.95 * 5 * rate


def test_faster_boards_are_fewer() -> None:
    """Each kind on offer has its own number."""
    slow = size(offer(PI3), Wish(per_second=1e-3))[PI3].result
    assert slow is not None
    sized = size(offer(PI3, PI4), Wish(per_second=6 * slow.estimate.images_per_second))
    assert set(sized) == {PI3, PI4}
    assert sized[PI4].count < sized[PI3].count


def test_a_latency_no_number_reaches_is_said() -> None:
    """The best that was reached comes with its plan, and is not called met."""
    sized = size(offer(PI3), Wish(latency_s=1e-9), most=4)[PI3]
    assert not sized.is_met
    assert sized.result is not None


def test_a_requester_that_computes_is_a_board() -> None:
    """One board alone needs no other, and no link is asked for between a board and itself."""
    cost = offer(PI3, PI3, camera=False)
    sized = size(cost, Wish(latency_s=10.0))[PI3]
    assert sized.count == 1
    assert sized.cost.cluster.names == ("b0",)


def test_no_plan_for_any_number() -> None:
    """Where memory never suffices there is no plan, and nothing raises."""
    small = Device("b0", kind=PI3, memory_bytes=1000)
    cluster = Cluster.of([Device("cam", kind=PI3, computes=False), small])
    cost = CostModel(make_network(), cluster)
    sized = size(cost, Wish(latency_s=10.0), most=2)[PI3]
    assert sized.result is None
    assert not sized.is_met
    options = PlanOptions(budget_s=0.0)  # nor where time ends before all were tried
    (hurried,) = size_clusters(cost, Wish(latency_s=10.0), "single", options, most=4)
    assert (hurried.count, hurried.result, hurried.untried) == (1, None, range(2, 5))


def test_profiles_go_with_their_board() -> None:
    """A board with a profile of its own is a kind of its own."""
    cluster = Cluster.of([Device("cam", kind=PI3), Device("x", kind=PI3, profile="x.json")])
    assert set(offered(cluster)) == {PI3, "x"}


def test_boards_of_one_kind_that_differ_are_kinds_of_their_own() -> None:
    """None is left out for another's memory."""
    small = Device("small", kind=PI3, memory_bytes=10**7)
    cluster = Cluster.of([Device("cam", kind=PI4), Device("large", kind=PI3), small])
    assert list(offered(cluster)) == [PI4, "large", "small"]


def test_a_kind_that_is_also_a_name_hides_no_board() -> None:
    """The board of that kind goes by its own name; the other one may not be sold for it."""
    boards = [Device(PI4, kind=PI3), Device("fast", kind=PI4), Device("home", kind=PI3)]
    found = offered(Cluster.of(boards))
    assert found["fast"].kind == PI4
    assert all(board.kind == PI3 for name, board in found.items() if name != "fast")


def test_whether_fewer_boards_are_ruled_out_is_told() -> None:
    """By a bound, or as there are none fewer; never by a search that found nothing."""
    one = size(offer(PI3), Wish(per_second=1e-3))[PI3]
    assert (one.count, one.is_least) == (1, True)
    assert one.result is not None
    bound_s = one.result.least_period_s
    assert bound_s is not None
    rate = one.result.estimate.images_per_second
    many = size(offer(PI3), Wish(per_second=5 * rate))[PI3]
    fewer = size_clusters(
        offer(PI3), Wish(per_second=5 * rate), "collaborative", most=many.count - 1
    )
    bounds = [sized.result.least_period_s for sized in fewer if sized.result is not None]
    assert many.is_least == any(bound and bound > 1 / (5 * rate) for bound in bounds)


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_boards_are_tried_than_allowed(most: int) -> None:
    """The limit holds, whatever the doubling would reach."""
    seen: list[int] = []
    list(
        size_clusters(
            offer(PI3),
            Wish(latency_s=1e-9),
            "collaborative",
            most=most,
            progress=lambda kind, count: seen.append(count),
        )
    )
    assert max(seen) == most


def test_one_board_needs_no_links() -> None:
    """A requester that computes alone is an offer of one board."""
    cost = CostModel(make_network(), Cluster.of([Device("b0", kind=PI3)]))
    assert size(cost, Wish(latency_s=10.0))[PI3].count == 1


def test_no_link_is_made_up() -> None:
    """Boards that cannot send back answer nothing, however many they are."""
    devices = [Device("cam", kind=PI3, computes=False), Device("b0", kind=PI3)]
    cluster = Cluster.of(devices, links=[Link("cam", "b0", 1e9)])
    sized = size(CostModel(make_network(), cluster), Wish(latency_s=10.0), most=2)[PI3]
    assert sized.result is None
    assert {link.pair for link in sized.cost.cluster.links if "cam" in link.pair} <= {
        ("cam", name) for name in sized.cost.cluster.names
    }


def test_all_searches_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has an equal part of what is left for those that may come, of all kinds."""
    seen: list[float] = []

    def find(cost: CostModel, *, planner: str, options: PlanOptions) -> Result:
        seen.append(options.most_s)
        raise InfeasibleError("no plan")

    monkeypatch.setattr(sizing, "find_plan", find)
    options = PlanOptions(budget_s=1000.0)
    list(size_clusters(offer(PI3, PI4), Wish(latency_s=1.0), options=options, most=8))
    most_attempts = 1 + 3 + 2  # one board, three times doubled, twice halved
    assert len(seen) == 2 * 4
    assert seen[0] == pytest.approx(1000.0 / (2 * most_attempts), rel=0.01)
    assert seen[4] == pytest.approx(1000.0 / most_attempts, rel=0.01)
    assert seen == sorted(seen)


def test_numbers_without_time_are_said() -> None:
    """One board of each kind is tried, whatever the time; of the others nothing is claimed."""
    options = PlanOptions(budget_s=0.0)
    found = list(size_clusters(offer(PI3, PI4), Wish(latency_s=1e-9), "single", options, most=16))
    assert [(one.count, one.is_met, one.untried) for one in found] == [
        (1, False, range(2, 17)),
        (1, False, range(2, 17)),
    ]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [(0, (0, None)), (2, (2, None)), (4, (4, 8)), (5, (4, 6)), (9, (5, 6))],
)
def test_a_search_that_ends_early_says_between_which_numbers(
    attempts: int, expected: tuple[int, int | None]
) -> None:
    """Six is enough: what is known after each attempt, and never more attempts than announced."""
    left = [attempts]
    announced: list[int] = []

    def attempt(count: int, most_left: int) -> bool | None:
        left[0] -= 1
        announced.append(most_left)
        return None if left[0] < 0 else count >= 6

    assert sizing._smallest(attempt, 16) == expected
    assert announced == sorted(announced, reverse=True)
    assert announced[-1] >= 1


def camera_offer(*, medium: str | None = None, port: float | None = 1e5) -> CostModel:
    """A camera behind a port, or on a radio, of 100 kB/s, and one board with fast links."""
    camera = Device("cam", kind=PI3, computes=False, port_bytes_per_s=port)
    rate = 1e5 if medium else 1e9
    pairs = [("cam", "b0"), ("b0", "cam")]
    links = [Link(*pair, rate, medium=medium) for pair in pairs]
    cluster = Cluster.of([camera, Device("b0", kind=PI3)], links=links)
    return CostModel(make_network(), cluster)


def test_no_number_of_boards_gets_past_what_all_share() -> None:
    """The camera's port, or its radio: what it lets through is said, and nothing is searched."""
    sizes = [make_network().size_bytes(name) for name in ("x", "y")]
    tried: list[int] = []
    for cost, most, name in (
        (camera_offer(), 1e5 / max(sizes), "the port of 'cam' of 800 kbit/s"),
        (camera_offer(medium="air", port=None), 1e5 / sum(sizes), "medium 'air' of 800 kbit/s"),
    ):
        for wish in (Wish(per_second=1.01 * most), Wish(latency_s=0.99 / most)):
            (sized,) = size_clusters(
                cost, wish, "single", most=4, progress=lambda _, count: tried.append(count)
            )
            assert name in sized.limit
            assert not sized.is_met
            assert not sized.untried
        assert not tried
        (sized,) = size_clusters(cost, Wish(per_second=0.5 * most), "collaborative", most=4)
        assert sized.is_met


def test_no_number_of_boards_computes_more_than_all_of_them() -> None:
    """Four boards do at most four times what one does."""
    one = size(offer(PI3), Wish(per_second=1e-3))[PI3].result
    assert one is not None
    wish = Wish(per_second=5 * one.estimate.images_per_second)
    sized = size(offer(PI3), wish, most=4)[PI3]
    assert f"4 x '{PI3}' compute at most" in sized.limit


def test_why_there_is_no_plan_is_kept() -> None:
    """The proof for the largest number that was tried, or that time ended the search."""
    devices = [Device("cam", kind=PI3, computes=False), Device("b0", kind=PI3)]
    cost = CostModel(make_network(), Cluster.of(devices, links=[]))
    sized = size(cost, Wish(latency_s=10.0), most=2)[PI3]
    assert sized.fault is not None
    assert sized.fault.is_proven
    assert not sized.was_cut
    board = Device("b0", kind=PI3, memory_bytes=4_300_000)
    cost = CostModel(make_network(), Cluster.of([devices[0], board]))
    options = PlanOptions(budget_s=-1.0)
    (hurried,) = size_clusters(cost, Wish(latency_s=10.0), "cut", options, most=4)
    assert hurried.was_cut
    assert hurried.fault is not None
    assert not hurried.fault.is_proven
