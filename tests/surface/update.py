"""Write the record of the public surface that ``test_surface`` compares with."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.surface.replies import collect_replies
from tools import surface

GOLDEN = Path(__file__).with_name("surface.json")
SECTIONS: dict[str, Callable[[], object]] = {
    "names": surface.list_names,
    "commands": surface.list_commands,
    "errors": surface.list_errors,
    "plan_schema": surface.describe_plan,
    "replies": collect_replies,
}


def main() -> None:
    """Collect all sections and write them."""
    found = {name: collect() for name, collect in SECTIONS.items()}
    GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {GOLDEN.name}: {', '.join(found)}")


if __name__ == "__main__":
    main()
