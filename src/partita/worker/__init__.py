"""A device: takes content and programs from a leader and runs them."""

from partita.worker.control import Worker, WorkerParts
from partita.worker.serve import WorkerOptions, run_worker
from partita.worker.store import Store, default_store_dir

__all__ = [
    "Store",
    "Worker",
    "WorkerOptions",
    "WorkerParts",
    "default_store_dir",
    "run_worker",
]
