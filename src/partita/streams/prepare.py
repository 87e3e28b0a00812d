"""From what an input of a stream holds to the arrays of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from partita.errors import InputError, PartitaError, name_error
from partita.program import TensorSpec, check_feeds
from partita.quantisation.pictures import Preparation, picture_form, prepare_picture
from partita.quantisation.samples import Feeds
from partita.streams.items import Content, Item

#: A user's own way: from pixels or arrays to the input, or to inputs by name.
Prepare = Callable[[Content], Any]


class Preparer:
    """Makes requests of inputs: as they are, where they fit; pictures as ``how`` says.

    Args:
        specs: The model's inputs, in order; a picture is the first.
        how: A preparation, or a user's function that is asked instead.

    Raises:
        InputError: The model's input takes no picture that is prepared so.
    """

    def __init__(self, specs: Sequence[TensorSpec], how: Preparation | Prepare | None) -> None:
        self._specs = specs
        self._function = how if callable(how) else None
        self._how = how if isinstance(how, Preparation) else Preparation()
        if isinstance(how, Preparation) and how != Preparation():
            picture_form(specs[0], how)

    def prepare(self, item: Item) -> tuple[Content, Feeds]:
        """What the input holds, and the arrays of a request by name, in the model's order.

        Raises:
            InputError: The input cannot be decoded, or does not fit the model.
        """
        content = item.load()
        try:
            if self._function is not None:
                made = self._function(content)
            else:
                made = content if isinstance(content, Mapping) else self._fit(np.asarray(content))
            feeds = made if isinstance(made, Mapping) else {self._specs[0].name: made}
            return content, check_feeds(self._specs, feeds)
        except PartitaError as error:
            raise InputError(f"Input '{item.name}': {error.message}", subject=item.name) from error
        except Exception as error:  # whatever a user's function raises
            raise InputError(
                f"Input '{item.name}' cannot be prepared: {name_error(error)}.",
                subject=item.name,
            ) from error

    def _fit(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array as it is, where it has the input's form; else the picture that it is."""
        spec = self._specs[0]
        if array.shape == spec.shape and array.dtype == spec.dtype:
            return array
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
            raise InputError(
                f"it has shape {array.shape} of {array.dtype}, allowed: {spec.shape} of"
                f" {spec.dtype}, or a picture (height x width x 3 of uint8).",
                subject=spec.name,
            )
        return prepare_picture(spec, array, self._how)
