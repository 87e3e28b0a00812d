"""Names of a package whose modules are imported when they are used."""

from __future__ import annotations

import sys
from importlib import import_module

#: See :mod:`partita`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def on_first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``; a name is looked up once. ``dir()`` shows all names.

    Args:
        modules: By module, as seen from the package, the names that it exports through it.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    vars(sys.modules[package])["__dir__"] = lambda: sorted(homes)
    return get
