"""Tensors that are needed at each place of an order, and what is in memory while layers run."""

from __future__ import annotations

from partita.graph.layer import Layer
from partita.graph.liveness import live_tensors, working_sets


def _layer(name: str, reads: str, makes: str) -> Layer:
    return Layer(name, "Conv", (), tuple(reads), tuple(makes), 0, 0, 0)


#: Figure 4 of AUTO-SPLIT in small: x -> a -> b -> c, and c also reads a.
SKIP = (_layer("A", "x", "a"), _layer("B", "a", "b"), _layer("C", "ba", "c"))


def test_a_tensor_lives_from_its_maker_to_its_last_reader() -> None:
    """What is skipped over stays, each tensor once, and the answer is needed from where it is."""
    assert live_tensors(SKIP, ["x"], {"c"}) == (("x",), ("a",), ("a", "b"), ("c",))
    assert live_tensors(SKIP, ["x"], {"b", "c"})[3] == ("b", "c")


def test_what_nobody_reads_is_never_needed() -> None:
    """An input without a reader crosses no place."""
    assert live_tensors(SKIP, ["x", "unread"], {"c"})[0] == ("x",)


def test_a_working_set_has_inputs_outputs_and_what_is_read_later() -> None:
    """While the layer between runs, the tensor that a later layer reads is in memory, too."""
    live = live_tensors(SKIP, ["x"], {"c"})
    assert [set(one) for one in working_sets(SKIP, live)] == [set("xa"), set("ab"), set("abc")]


def test_another_order_has_other_working_sets() -> None:
    """Two branches one after the other hold less than both in turn."""
    one, two = _layer("1", "x", "p"), _layer("2", "x", "q")
    ends = [_layer("3", "p", "r"), _layer("4", "q", "s"), _layer("5", "rs", "y")]
    deep, wide = (one, ends[0], two, *ends[1:]), (one, two, *ends)
    held = [
        max(map(len, working_sets(order, live_tensors(order, ["x"], {"y"}))))
        for order in (deep, wide)
    ]
    assert held == [3, 3]
    assert set(live_tensors(deep, ["x"], {"y"})[2]) == {"x", "r"}
    assert set(live_tensors(wide, ["x"], {"y"})[2]) == {"p", "q"}
