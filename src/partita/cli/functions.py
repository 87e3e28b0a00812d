"""Functions of the user's own, named by flags as ``MODULE:FUNCTION``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from partita.errors import InputError, name_error


def load_function(text: str, flag: str, example: str, others: str = "") -> Callable[..., Any]:
    """A function of a module that Python finds from the current folder.

    Args:
        flag: That named it.
        example: Of what is allowed.
        others: What else is, for the message.

    Raises:
        InputError: There is no such module or function, or it cannot be imported.
    """
    module, _, name = text.partition(":")
    if not (module and name.isidentifier()):
        raise InputError(
            f"{flag} is '{text}', allowed: MODULE:FUNCTION, such as {example}{others}.",
            subject=flag,
        )
    sys.path.insert(0, "")  # as for 'python -m': modules of the current folder
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:  # Any: the module is the user's own.
        raise InputError(
            f"{flag} {text}: module '{module}' cannot be imported: {name_error(error)}.",
            subject=flag,
        ) from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise InputError(
            f"{flag} {text}: module '{module}' has no function '{name}'.", subject=flag
        )
    function: Callable[..., Any] = found
    return function
