"""Reading number plates with a divided network: the whole of Partita on one photo."""

from partita.demo.result import DemoOptions, DemoResult
from partita.demo.run import run_demo
from partita.demo.save import DemoFiles, save_demo
from partita.demo.show import print_demo

__all__ = ["DemoFiles", "DemoOptions", "DemoResult", "print_demo", "run_demo", "save_demo"]
