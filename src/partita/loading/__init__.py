"""Child models: a network cut so that its parts load while others already compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.loading.blocks import Block, BlockProfile, load_blocks, save_blocks
    from partita.loading.children import balanced_ends
    from partita.loading.choose import Choice, check_method, choose_division
    from partita.loading.makespan import LoadTimes, Problem, simulate_loading
    from partita.loading.manifest import Child, Manifest, Scheme, choose_scheme, read_manifest
    from partita.loading.measure import measure_blocks
    from partita.loading.optimum import Found, balance_loads, find_balanced, find_optimum
    from partita.loading.personal.features import compute_features, load_frozen
    from partita.loading.personal.options import Outcome, PersonalOptions
    from partita.loading.personal.personalise import personalise
    from partita.loading.qlearning import LearnOptions, learn_division
    from partita.loading.runner import Mark
    from partita.loading.session import BundleSession, load_bundle
    from partita.loading.split import Division, write_bundle
    from partita.loading.switch import Switch, measure_switch
    from partita.loading.tryout import Tryout
    from partita.loading.verify import verify_bundle

#: Loaded when used: what answers first must not wait for what splits models.
_HOMES = {
    "Block": "blocks",
    "BlockProfile": "blocks",
    "BundleSession": "session",
    "Child": "manifest",
    "Choice": "choose",
    "Division": "split",
    "Found": "optimum",
    "LearnOptions": "qlearning",
    "LoadTimes": "makespan",
    "Manifest": "manifest",
    "Mark": "runner",
    "Outcome": "personal.options",
    "PersonalOptions": "personal.options",
    "Problem": "makespan",
    "Scheme": "manifest",
    "Switch": "switch",
    "Tryout": "tryout",
    "balance_loads": "optimum",
    "balanced_ends": "children",
    "check_method": "choose",
    "choose_division": "choose",
    "choose_scheme": "manifest",
    "compute_features": "personal.features",
    "find_balanced": "optimum",
    "find_optimum": "optimum",
    "learn_division": "qlearning",
    "load_blocks": "blocks",
    "load_bundle": "session",
    "load_frozen": "personal.features",
    "measure_blocks": "measure",
    "measure_switch": "switch",
    "personalise": "personal.personalise",
    "read_manifest": "manifest",
    "save_blocks": "blocks",
    "simulate_loading": "makespan",
    "verify_bundle": "verify",
    "write_bundle": "split",
}

__all__ = [
    "Block",
    "BlockProfile",
    "BundleSession",
    "Child",
    "Choice",
    "Division",
    "Found",
    "LearnOptions",
    "LoadTimes",
    "Manifest",
    "Mark",
    "Outcome",
    "PersonalOptions",
    "Problem",
    "Scheme",
    "Switch",
    "Tryout",
    "balance_loads",
    "balanced_ends",
    "check_method",
    "choose_division",
    "choose_scheme",
    "compute_features",
    "find_balanced",
    "find_optimum",
    "learn_division",
    "load_blocks",
    "load_bundle",
    "load_frozen",
    "measure_blocks",
    "measure_switch",
    "personalise",
    "read_manifest",
    "save_blocks",
    "simulate_loading",
    "verify_bundle",
    "write_bundle",
]

__getattr__ = on_first_use(__name__, _HOMES)
