"""The plan: what is decided, as plain data with a hash."""

from partita.plan.io import MAX_IN_FLIGHT, dump_plan, hash_plan, load_plan
from partita.plan.model import Asked, Identity, Plan, Shard, SplitAxis, Stage

__all__ = [
    "MAX_IN_FLIGHT",
    "Asked",
    "Identity",
    "Plan",
    "Shard",
    "SplitAxis",
    "Stage",
    "dump_plan",
    "hash_plan",
    "load_plan",
]
