"""The structure that ``docs/design.md`` draws is the one that imports have."""

from __future__ import annotations

import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_no_module_imports_itself_in_a_circle() -> None:
    """Modules can be put in an order, imports for types alone included."""
    graph = grimp.build_graph("partita", cache_dir=None, exclude_type_checking_imports=False)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    order = list(TopologicalSorter(imports).static_order())
    assert len(order) == len(graph.modules)


def _drawn_rows(text: str) -> list[list[str]]:
    """Return the names in each row of the picture of packages."""
    block = text.partition("## Packages")[2].split("```")[1]
    rows = [re.sub(r"\(.*?\)|\(.*", "", line) for line in block.splitlines()]
    return [re.findall(r"\w+", row) for row in rows if re.search(r"\w", row)]


def test_the_picture_of_packages_is_the_contract() -> None:
    """The rows of the design page are the layers that the import contract holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["partita"])
    drawn = _drawn_rows((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    assert drawn == [re.findall(r"\w+", layer) for layer in layers]


def test_the_code_map_names_files_that_are_there() -> None:
    """Every file of the map, and every folder, exists."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition("## Code map")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    assert len(named) > 20
    missing = [name for name in named if not (ROOT / "src" / "partita" / name).exists()]
    assert missing == []


@pytest.mark.parametrize("package", ["execution", "fabric", "leader", "worker"])
def test_no_protocol_asks_for_the_time_of_day(package: str) -> None:
    """Boards without a clock start anywhere, and clocks are set back: numbers are drawn instead."""
    wall = re.compile(r"time\.time\b|\btime_ns\(|datetime|CLOCK_REALTIME|uuid1")
    files = (ROOT / "src" / "partita" / package).rglob("*.py")
    assert [file.name for file in files if wall.search(file.read_text(encoding="utf-8"))] == []
