"""All models that are served, by name, and how one version follows another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from partita.errors import BusyError, InputError, NotServedError, first_line
from partita.execution import Change
from partita.leader import History, Session
from partita.naming import NAME_RULE, is_name
from partita.serve.served_model import ServedModel
from partita.version import VERSION

_LOG = logging.getLogger(__name__)

#: Longest wait for the last answers of a version that another one follows: a session gives up
#: on a request of its own earlier, unless others make progress.
_LAST_ANSWERS_S = 120.0
#: Between attempts to deploy a model anew whose session has ended: a worker starts within seconds.
RETRY_S = 5.0
#: Longest wait at the end for a deployment under way: workers that are gone do not come back in it.
_DEPLOYED_S = 1.0


def describe_server(*extensions: str) -> dict[str, Any]:
    """The server's metadata: what it is, and what it does beyond the protocol itself."""
    return {"name": "partita", "version": VERSION, "extensions": extensions}


def _tell_deployed(version: str, old: ServedModel | None) -> Change:
    """The change of versions, for those who look on."""
    why = f"version {version}"
    if old is not None:
        why += f" follows version {old.version}" + (", which had ended" if old.error else "")
    return Change(time.monotonic(), why, "deployed")


def _history_of(old: ServedModel | None, deployed: Change) -> History:
    """What went before a version: all that the one before has seen, and how it was followed."""
    before = History() if old is None else old.session.history
    return before.with_session(0, [deployed])


class ModelSource(Protocol):
    """Where a model comes from."""

    @property
    def name(self) -> str:
        """What clients call it."""

    def open(self) -> AbstractContextManager[Session]:
        """What deploys the model as its file is now, when entered, and takes it down at the end."""


class Front:
    """The newest version of each model; a context whose end takes all of them down.

    Args:
        sources: One per model.
        queue: Most requests of a model that wait beside those under way.
        retry_s: Seconds after which a model whose session has ended is deployed anew, and again.

    Raises:
        InputError: A name is no name, or two models have it.
    """

    def __init__(
        self, sources: Sequence[ModelSource], *, queue: int, retry_s: float = RETRY_S
    ) -> None:
        self._sources = {source.name: source for source in sources}
        names = [source.name for source in sources]
        for name in names:
            if not is_name(name) or names.count(name) > 1:
                fault = "of two models" if is_name(name) else f"not allowed: {NAME_RULE}"
                raise InputError(f"Name '{name}' is {fault}. Give one as NAME=FILE.", subject=name)
        self._queue, self._retry_s = queue, retry_s
        self._models: dict[str, ServedModel] = {}
        self._leaving: list[ServedModel] = []
        self._loading = threading.Lock()
        self._ended = threading.Event()

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, in the order in which they were given."""
        return tuple(self._sources)

    @property
    def models(self) -> list[ServedModel]:
        """The newest version of each that was deployed."""
        return list(self._models.values())

    @property
    def is_ready(self) -> bool:
        """Whether all models answer."""
        return not self._ended.is_set() and all(map(self.is_served, self._sources))

    @property
    def is_loading(self) -> bool:
        """Whether a model is being deployed."""
        return self._loading.locked()

    @property
    def unanswered(self) -> int:
        """Requests that were taken and not answered yet."""
        return sum(model.unanswered for model in self._all())

    def is_served(self, name: str) -> bool:
        """Whether a model of a name answers."""
        model = self._models.get(name)
        return model is not None and model.error is None and not self._ended.is_set()

    def find(self, name: str, version: str = "") -> ServedModel | None:
        """The model of a name; None where there is none, or not in that version."""
        model = self._models.get(name)
        return model if model is not None and version in ("", model.version) else None

    def get(self, name: str, version: str = "") -> ServedModel:
        """The model of a name, in the version that is asked for, or the one there is.

        Raises:
            BusyError: It is not there yet.
            NotServedError: There is none; says what there is.
        """
        model = self.find(name, version)
        if model is not None:
            return model
        newest = self.find(name)
        if newest is None and name in self._sources:
            raise BusyError(f"Model '{name}' is being deployed. Ask again later.")
        if newest is None:
            names = ", ".join(self.names)
            raise NotServedError(f"Model '{name}' is not served; allowed: {names}.", subject=name)
        raise NotServedError(
            f"Model '{name}' has no version '{version}'; allowed: {newest.version}.",
            subject=name,
        )

    def load(self, name: str) -> ServedModel:
        """Deploy a model anew from its file; requests go to the new version from then on.

        The version before answers what it took, beside the new one, and is then taken down. Where
        the new one cannot be deployed, it goes on.

        Raises:
            PartitaError: It cannot be deployed, or the front is at its end.
        """
        with self._loading:
            if self._ended.is_set():
                raise BusyError(f"Model '{name}' is not loaded: the service is at its end.")
            old = self._models.get(name)
            if old is not None and old.error is not None:
                old.close()  # it answers nothing, and its memory is wanted
            version = str(1 if old is None else int(old.version) + 1)
            opened = self._sources[name].open()
            model = ServedModel(name, version, opened, self._queue)
            if self._ended.is_set():
                model.close()
                raise BusyError(f"Model '{name}' is not loaded: the service is at its end.")
            deployed = _tell_deployed(version, old)
            model.session.follow(_history_of(old, deployed))
            self._models[name] = model
            if old is not None:
                _LOG.info("model '%s' is at version %s", name, version)
                self._leaving.append(old)
                old.drain(_LAST_ANSWERS_S)
                old.close()
                self._leaving.remove(old)
                model.session.follow(_history_of(old, deployed))  # with its last answers
            return model

    def refuse(self) -> None:
        """Take no more requests from now on; those that were taken go on."""
        self._ended.set()
        for model in self._all():
            model.drain(0.0)

    def close(self) -> None:
        """Take all models down; requests without an answer end with an error.

        What is being deployed is waited for no longer than a moment: it is not served any more.
        """
        self.refuse()
        for model in self._all():
            model.close()
        if self._loading.acquire(timeout=_DEPLOYED_S):
            self._loading.release()
        for model in self._all():
            model.close()

    def _revive(self) -> None:
        """Deploy anew, again and again, what has ended: who was lost may have come back."""
        while not self._ended.wait(self._retry_s):
            for name in self._sources:
                if (model := self._models.get(name)) is None or model.error is None:
                    continue
                try:
                    self.load(name)
                except Exception as error:  # whatever it is, it may be over the next time
                    self._hinder(model, first_line(error))

    def _hinder(self, model: ServedModel, why: str) -> None:
        """Let clients of a model that has ended know why it is not back; the log gets it once."""
        if model.hindrance != why:
            model.hindrance = why
            _LOG.warning("model '%s' is not deployed anew: %s", model.name, why)

    def _all(self) -> list[ServedModel]:
        return [*self._leaving, *self.models]

    def __enter__(self) -> Self:
        try:
            for name in self._sources:
                self.load(name)
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._revive, name="serve/revive", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
