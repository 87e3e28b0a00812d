"""Child models: a network cut so that its parts load while others already compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.lazy import on_first_use

if TYPE_CHECKING:
    from partita.loading.bundle.manifest import (
        Manifest,
        Variant,
        choose_variant,
        read_manifest,
    )
    from partita.loading.bundle.verify import verify_bundle
    from partita.loading.cut.blocks import BlockProfile, load_blocks, save_blocks
    from partita.loading.cut.branch_and_bound import (
        balance_loads,
        find_balanced,
        find_optimum,
    )
    from partita.loading.cut.choose import Choice, check_method, choose_division
    from partita.loading.cut.makespan import Problem, simulate_loading
    from partita.loading.cut.measure_blocks import measure_blocks
    from partita.loading.cut.qlearning import LearnOptions, learn_division
    from partita.loading.cut.switch import measure_switch
    from partita.loading.cut.trial_loads import TrialLoads
    from partita.loading.personal.features import compute_features, load_frozen
    from partita.loading.personal.options import Outcome, PersonalOptions
    from partita.loading.personal.personalise import personalise
    from partita.loading.serve.runner import Mark
    from partita.loading.serve.session import load_bundle
    from partita.loading.write.child_models import balanced_ends
    from partita.loading.write.write_bundle import Division, write_bundle

#: Loaded when used: what answers first must not wait for what splits models.
_MODULES = {
    "bundle.manifest": "Manifest Variant choose_variant read_manifest",
    "bundle.verify": "verify_bundle",
    "cut.blocks": "BlockProfile load_blocks save_blocks",
    "cut.branch_and_bound": "balance_loads find_balanced find_optimum",
    "cut.choose": "Choice check_method choose_division",
    "cut.makespan": "Problem simulate_loading",
    "cut.measure_blocks": "measure_blocks",
    "cut.qlearning": "LearnOptions learn_division",
    "cut.switch": "measure_switch",
    "cut.trial_loads": "TrialLoads",
    "personal.features": "compute_features load_frozen",
    "personal.options": "Outcome PersonalOptions",
    "personal.personalise": "personalise",
    "serve.runner": "Mark",
    "serve.session": "load_bundle",
    "write.child_models": "balanced_ends",
    "write.write_bundle": "Division write_bundle",
}

__all__ = [
    "BlockProfile",
    "Choice",
    "Division",
    "LearnOptions",
    "Manifest",
    "Mark",
    "Outcome",
    "PersonalOptions",
    "Problem",
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

__getattr__ = on_first_use(__name__, _MODULES)
