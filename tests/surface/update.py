"""Write the record of the public surface that ``test_surface`` compares with."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.surface.layers import describe_layers, find_regrouped
from tests.surface.replies import collect_replies
from tools import messages, surface

GOLDEN = Path(__file__).with_name("surface.json")
SECTIONS: dict[str, Callable[[], object]] = {
    "names": surface.list_names,
    "commands": surface.list_commands,
    "errors": surface.list_errors,
    "plan_schema": surface.describe_plan,
    "replies": collect_replies,
    "messages": messages.describe_messages,
    "layers": describe_layers,
}


def main() -> None:
    """Collect all sections and write them; messages and layers change with their versions only."""
    found = {name: collect() for name, collect in SECTIONS.items()}
    if GOLDEN.exists():
        known = json.loads(GOLDEN.read_text(encoding="utf-8"))
        now = json.loads(json.dumps(found))
        broken = messages.find_breaks(known["messages"], now["messages"])
        if broken:
            raise SystemExit(f"raise PROTOCOL_VERSION first: {'; '.join(broken)}")
        regrouped = find_regrouped(known["layers"], now["layers"])
        if regrouped:
            raise SystemExit(f"raise NORMALISER_VERSION first: {', '.join(regrouped)}")
    GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {GOLDEN.name}: {', '.join(found)}")


if __name__ == "__main__":
    main()
