"""Child models: a network cut so that its parts load while others already compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.loading.bundle.manifest import (
        Child,
        Manifest,
        Variant,
        choose_variant,
        read_manifest,
    )
    from partita.loading.bundle.verify import verify_bundle
    from partita.loading.cut.blocks import Block, BlockProfile, load_blocks, save_blocks
    from partita.loading.cut.branch_and_bound import (
        DivisionResult,
        balance_loads,
        find_balanced,
        find_optimum,
    )
    from partita.loading.cut.choose import Choice, check_method, choose_division
    from partita.loading.cut.makespan import LoadTimes, Problem, simulate_loading
    from partita.loading.cut.measure_blocks import measure_blocks
    from partita.loading.cut.qlearning import LearnOptions, learn_division
    from partita.loading.cut.switch import Switch, measure_switch
    from partita.loading.cut.trial_loads import TrialLoads
    from partita.loading.personal.features import compute_features, load_frozen
    from partita.loading.personal.options import Outcome, PersonalOptions
    from partita.loading.personal.personalise import personalise
    from partita.loading.serve.runner import Mark
    from partita.loading.serve.session import BundleSession, load_bundle
    from partita.loading.write.child_models import balanced_ends
    from partita.loading.write.write_bundle import Division, write_bundle

#: Loaded when used: what answers first must not wait for what splits models.
_HOMES = {
    "Block": "cut.blocks",
    "BlockProfile": "cut.blocks",
    "BundleSession": "serve.session",
    "Child": "bundle.manifest",
    "Choice": "cut.choose",
    "Division": "write.write_bundle",
    "DivisionResult": "cut.branch_and_bound",
    "LearnOptions": "cut.qlearning",
    "LoadTimes": "cut.makespan",
    "Manifest": "bundle.manifest",
    "Mark": "serve.runner",
    "Outcome": "personal.options",
    "PersonalOptions": "personal.options",
    "Problem": "cut.makespan",
    "Variant": "bundle.manifest",
    "Switch": "cut.switch",
    "TrialLoads": "cut.trial_loads",
    "balance_loads": "cut.branch_and_bound",
    "balanced_ends": "write.child_models",
    "check_method": "cut.choose",
    "choose_division": "cut.choose",
    "choose_variant": "bundle.manifest",
    "compute_features": "personal.features",
    "find_balanced": "cut.branch_and_bound",
    "find_optimum": "cut.branch_and_bound",
    "learn_division": "cut.qlearning",
    "load_blocks": "cut.blocks",
    "load_bundle": "serve.session",
    "load_frozen": "personal.features",
    "measure_blocks": "cut.measure_blocks",
    "measure_switch": "cut.switch",
    "personalise": "personal.personalise",
    "read_manifest": "bundle.manifest",
    "save_blocks": "cut.blocks",
    "simulate_loading": "cut.makespan",
    "verify_bundle": "bundle.verify",
    "write_bundle": "write.write_bundle",
}

__all__ = [
    "Block",
    "BlockProfile",
    "BundleSession",
    "Child",
    "Choice",
    "Division",
    "DivisionResult",
    "LearnOptions",
    "LoadTimes",
    "Manifest",
    "Mark",
    "Outcome",
    "PersonalOptions",
    "Problem",
    "Switch",
    "TrialLoads",
    "Variant",
    "balance_loads",
    "balanced_ends",
    "check_method",
    "choose_division",
    "choose_variant",
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
