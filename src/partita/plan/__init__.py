"""The plan: what is decided, as plain data with a hash."""

from partita.plan.io import dump_plan, hash_plan, load_plan
from partita.plan.model import Asked, Identity, Plan, Shard, SplitAxis, Stage

__all__ = [
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
