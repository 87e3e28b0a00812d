"""Bring a graph to the one form that the rest of Partita reads."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from partita.errors import ModelError
from partita.graph.affine import fold_affine
from partita.graph.branches import fold_branches, list_branches, take_branch
from partita.graph.constants import (
    drop_idle,
    fold_constants,
    fold_empty,
    fold_shapes,
    lift_constants,
)
from partita.graph.infer import fill_holes, infer_shapes, refuse_empty
from partita.graph.mutable_graph import Info, MutableGraph, node_reads
from partita.graph.opset import raise_opset
from partita.graph.parameters import count_parameters
from partita.graph.pooling import round_down
from partita.graph.read_quantised import open_weights
from partita.graph.window import make_windows_explicit, refuse_channels
from partita.graph.write_out import take_types, write_range_bounds, write_training_norms

#: Goes into every graph's hash; raise it when the same file gives another graph,
#: or the same with other layers: what is kept by the hash, as profiles and plans, names these.
NORMALISER_VERSION = 2
#: Rounds end when nothing changes; this only ends rewrites that undo each other. Not tuned.
_MOST_ROUNDS = 16


def normalise(draft: MutableGraph, *, optimise: bool = True) -> tuple[int, frozenset[str]]:
    """Normalise ``draft`` in place.

    Args:
        optimise: Whether scales and shifts, as of batch normalisation, are folded into weights.

    Returns:
        The number of trained parameters before anything is folded into anything else, and the
        tensors without a static shape (see ``fill_holes``).

    Raises:
        ModelError: The graph cannot run with its input shapes.
    """
    lift_constants(draft)
    if any(node.op_type == "If" for node in draft.nodes):
        _fold(draft)  # a branch that stays keeps a model at its own opset
    raise_opset(draft)
    lift_constants(draft)
    moving = _find_shapes(draft)
    refuse_empty(draft)
    refuse_channels(draft)
    if fold_empty(draft):
        _fold(draft)
    draft.drop_unused()
    if not draft.nodes:
        raise ModelError(f"Model '{draft.name}' computes nothing.", subject=draft.name)
    parameters = count_parameters(draft)
    if optimise:
        with np.errstate(all="ignore"):  # infinite weights are the model's own affair
            fold_affine(draft)
    draft.drop_unused()
    return parameters, moving


def _find_shapes(draft: MutableGraph) -> frozenset[str]:
    """Fold, and fill the holes of inference, until no shape that is found lets more be folded."""
    while True:
        measured = dict(draft.measured)
        moving = fill_holes(draft, _fold(draft))
        for place, node in enumerate(draft.nodes):
            if not moving.isdisjoint(node.output) and moving.isdisjoint(node_reads(node)):
                draft.measured |= _measure_branches(draft, place)
        if draft.measured == measured:
            return moving


def _measure_branches(draft: MutableGraph, place: int) -> dict[str, Info]:
    """What an ``If`` answers whichever branch it takes, where that is of one type and shape."""
    count = len(list_branches(draft.nodes[place]))
    answers = [_measure_branch(draft, place, branch) for branch in range(count)]
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else {}


def _measure_branch(draft: MutableGraph, place: int, branch: int) -> dict[str, Info]:
    """Type and shape of what an ``If`` answers by one branch, where they are fixed."""
    nodes = copy.deepcopy(draft.nodes[: place + 1])
    outputs = {name: draft.infos[name].elem_type for name in nodes[-1].output if name}
    scratch = replace(
        draft,
        nodes=nodes,
        constants=dict(draft.constants),
        outputs=outputs,
        declared={},
        measured=dict(draft.measured),
    )
    take_branch(scratch, nodes[-1], list_branches(nodes[-1])[branch])
    try:
        _find_shapes(scratch)
    except ModelError:  # with inputs of these shapes the branch cannot run
        return {}
    shapes = {name: scratch.shape(name) for name in outputs}
    return {name: Info(outputs[name], shape) for name, shape in shapes.items() if shape is not None}


def _fold(draft: MutableGraph) -> str:
    fault = ""
    for _ in range(_MOST_ROUNDS):
        draft.drop_unused()
        fault = infer_shapes(draft)
        changed = take_types(draft)
        changed |= write_range_bounds(draft)
        changed |= write_training_norms(draft)
        changed |= fold_shapes(draft)
        changed |= open_weights(draft)
        changed |= fold_constants(draft)
        changed |= fold_branches(draft)
        changed |= drop_idle(draft)
        changed |= make_windows_explicit(draft)
        changed |= round_down(draft.nodes, draft.shape)
        if not changed:
            break
    return fault
