"""The filling that asks: a model that somebody else serves by the Open Inference Protocol v2.

A part of a plan that is exported and served elsewhere, by another front or another server, is used
as if it ran here. Needs the core installation only.
"""

from __future__ import annotations

import http.client
import json
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from partita.engine.base import Blob, Runner, make_inputs
from partita.engine.ort import OrtEngine
from partita.errors import ClusterError, EndpointError, RunError, first_line
from partita.naming import ENDPOINT_RULE, is_endpoint
from partita.program import TensorSpec
from partita.regions import Array

#: Longest silence of an endpoint, and longest time in which one that is busy is asked again:
#: together no longer than a run waits for a step.
_SILENCE_S, _BUSY_S = 15.0, 10.0
_PAUSE_S = 0.05
#: Of the largest magnitude, for another engine's kernels with another order of sums.
_TOLERANCE = 1e-3
_HEAD_LENGTH = "Inference-Header-Content-Length"


class EndpointEngine:
    """Has the fragment that is served at an endpoint computed there.

    Others are computed here where they have no weights: messages are measured with such, before a
    plan is deployed.

    Args:
        url: Of the model, as :func:`partita.naming.is_endpoint` has it.
        local: Computes here; at loading it also says what the endpoint has to answer.

    Raises:
        ClusterError: The URL is none of a model.
    """

    def __init__(self, url: str, local: OrtEngine) -> None:
        if not is_endpoint(url):
            raise ClusterError(f"Endpoint '{url}' is none; allowed: {ENDPOINT_RULE}.", subject=url)
        self.url = url
        self._local = local

    def load(self, graph: bytes, blobs: Mapping[str, Blob], *, prepack: bool = True) -> Runner:
        """The fragment, compared with what is served; see :meth:`partita.engine.Engine.load`.

        Raises:
            EndpointError: The endpoint does not answer.
            RunError: It answers otherwise than the fragment.
        """
        here = self._local.load(graph, blobs, prepack=prepack)
        runner = EndpointRunner(self.url, here.inputs, here.outputs)
        difference = runner.find_difference()
        if not difference:
            _compare(runner, here)
            return runner
        if not blobs:
            return here
        raise RunError(
            f"Endpoint '{self.url}' {difference}. Serve the part that 'partita export' wrote."
        )


class EndpointRunner:
    """One fragment that is served elsewhere; see :class:`partita.engine.Runner`."""

    def __init__(
        self, url: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.providers: tuple[str, ...] = (url,)
        self._url, parts = url, urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=_SILENCE_S)
        weakref.finalize(self, self._connection.close)

    def find_difference(self) -> str:
        """What is served, and what the fragment has, in words; empty where they are the same.

        Names, types and shapes are compared.

        Raises:
            EndpointError: The endpoint does not answer.
        """
        _, body = self._ask("GET", self._path)
        try:
            served = json.loads(body)
            theirs = [_describe(tensor) for key in ("inputs", "outputs") for tensor in served[key]]
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"Endpoint '{self._url}' describes no model: {first_line(error)}."
            ) from None
        ours = [_describe(_tensor(spec)) for spec in (*self.inputs, *self.outputs)]
        if sorted(theirs) == sorted(ours):
            return ""
        return f"serves {', '.join(theirs)}; this device's part has {', '.join(ours)}"

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs; see :meth:`partita.engine.Runner.run`."""
        described = [
            _tensor(spec) | {"parameters": {"binary_data_size": array.nbytes}}
            for spec, array in zip(self.inputs, arrays, strict=True)
        ]
        wanted = [{"name": s.name, "parameters": {"binary_data": True}} for s in self.outputs]
        head = json.dumps({"inputs": described, "outputs": wanted}).encode()
        body = b"".join([head, *(array.tobytes() for array in arrays)])
        headers = {_HEAD_LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
        length, answer = self._ask("POST", f"{self._path}/infer", body, headers)
        try:
            return self._read(answer, int(length))
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"Endpoint '{self._url}' gave no answer that fits: {first_line(error)}."
            ) from None

    def _read(self, answer: bytes, start: int) -> list[Array]:
        """The outputs in the fragment's order, whatever that of the answer is."""
        found = {}
        for tensor in json.loads(answer[:start])["outputs"]:
            size = tensor["parameters"]["binary_data_size"]
            found[tensor["name"]] = answer[start : start + size]
            start += size
        return [
            np.frombuffer(found[spec.name], spec.dtype).reshape(spec.shape) for spec in self.outputs
        ]

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[str, bytes]:
        """The length of the answer's JSON object where the endpoint says so, and the answer."""
        until_s = time.monotonic() + _BUSY_S
        while True:
            answer, content = self._exchange(method, path, body, dict(headers or {}))
            if answer.status == 200:
                return answer.headers.get(_HEAD_LENGTH, ""), content
            if answer.status != 503 or time.monotonic() > until_s:
                said = content[:200].decode(errors="replace")
                message = f"Endpoint '{self._url}' answers {answer.status}: {said}"
                if answer.status >= 500:  # no fault of what was asked
                    raise EndpointError(message, device=self._url)
                raise RunError(message)
            time.sleep(_PAUSE_S)

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """One request and its answer; once more where the connection had been closed meanwhile."""
        for is_last in (False, True):
            try:
                self._connection.request(method, path, body, headers)
                answer = self._connection.getresponse()
                return answer, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if is_last or isinstance(error, TimeoutError):
                    message = f"Endpoint '{self._url}' does not answer: {first_line(error)}."
                    raise EndpointError(message, device=self._url) from None
        raise AssertionError


def _compare(there: EndpointRunner, here: Runner) -> None:
    """Raise unless a served model answers one input as the fragment does."""
    arrays = make_inputs(here.inputs)
    for spec, got, right in zip(here.outputs, there.run(arrays), here.run(arrays), strict=True):
        expected = right.astype(np.float64)
        gap = np.abs(got.astype(np.float64) - expected).max(initial=0.0)
        if not gap <= _TOLERANCE * np.abs(expected).max(initial=1e-30):
            raise RunError(
                f"Endpoint '{there.providers[0]}' serves another network: output '{spec.name}' of"
                f" the same input differs by {gap:.3g}. Serve the part that 'partita export' wrote."
            )


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def _describe(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['name']} {tensor['datatype']}{list(tensor['shape'])}"
