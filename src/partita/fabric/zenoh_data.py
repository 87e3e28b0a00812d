"""The data plane of a Zenoh endpoint: numbered chunks out, whole pieces in."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import zenoh

from partita.errors import LinkError, RunError
from partita.fabric.base import DataCallback, Payload, unreachable
from partita.fabric.callbacks import Drain
from partita.fabric.flows import (
    FLUSH_MARK,
    MAX_PIECE_BYTES,
    Ack,
    AckRequest,
    DamagedError,
    Inflow,
    Outflow,
    Signal,
    UnackedMessage,
    cut_chunks,
    new_flow,
    read_envelope,
    write_envelope,
)
from partita.fabric.flusher import Flusher
from partita.fabric.key_expressions import Keys, read_source
from partita.fabric.local_socket import LocalListener, LocalPath
from partita.fabric.peer_channel import PeerChannel
from partita.fabric.zenoh_options import (
    ZenohOptions,
    close_session,
    open_session,
    session_config,
)

_LOG = logging.getLogger(__name__)

#: 0.2 s of a 10 Mbit/s link: a put never blocks for seconds.
NETWORK_CHUNK_BYTES = 256 * 1024
_POLL_S = 0.002
#: Acknowledgements come within two ticks of 50 ms: ten of those, and the receiver is asked.
_ASK_S = 0.5
#: Three requests without progress; the wait doubles with each resend.
_RESEND_S = 1.5
_MAX_RESENDS = 4
#: A gap is reported by several acknowledgements; one resend answers them all.
_GAP_PAUSE_S = 0.2
#: Flows of a source that are known to be over. One ends when its source restarts or gives up a
#: link, and its late chunks come within seconds: one would do, were there no sources that flap.
_PAST_FLOWS = 16
#: Targets of pieces that are known, there or gone: more than a cluster has devices.
_MOST_CHANNELS = 256


@dataclass(frozen=True)
class DataHooks:
    """The endpoint's side of the data plane.

    Attributes:
        deliver: Gets each whole piece.
        fail: Gets each fault.
        signal: Sends a signal to a peer on the control plane.
        local_address: The socket of a peer on this host; None for others.
        wake: Asks for a :meth:`DataPlane.tick` soon.
    """

    deliver: DataCallback
    fail: Callable[[RunError], None]
    signal: Callable[[str, Signal], None]
    local_address: Callable[[str], bytes | None]
    wake: Callable[[], None]


class DataPlane:
    """Sends and receives pieces in a Zenoh session of its own."""

    def __init__(self, options: ZenohOptions, hooks: DataHooks) -> None:
        self._options = options
        self._hooks = hooks
        self._keys = Keys(options.cluster)
        self._session: Any = open_session(session_config(options, control=False))
        self._local = self._open_local() if options.local_sockets else None
        self._channels: dict[str, PeerChannel] = {}
        self._channels_lock = threading.Lock()
        self._inflows: dict[str, Inflow] = {}
        self._past_flows: defaultdict[str, deque[int]] = defaultdict(
            lambda: deque(maxlen=_PAST_FLOWS)
        )
        self._unreported: set[str] = set()
        self._taken = 0
        self._subscriber: Any = None
        self._is_closed = False
        self._drain = Drain(f"{options.name}-data", self._take, hooks.fail)
        self._flusher = Flusher(options, self._flush)

    def admit(self, source: str) -> bytes:
        """Where ``source`` sends to as a process of this host; empty where it cannot."""
        return b"" if self._local is None else self._local.admit(source)

    def _open_local(self) -> LocalListener | None:
        try:
            return LocalListener(
                self._options.name,
                self._hooks.deliver,
                self._reject,
                limits=(self._options.max_senders, self._options.inbound_bytes),
            )
        except OSError:
            return None

    def _reject(self, reason: str) -> None:
        self._hooks.fail(RunError(f"Frame to {self._options.name!r} rejected: {reason}."))

    def listen(self) -> None:
        """Take pieces from now on; senders wait until then."""
        if self._subscriber is None:
            key = self._keys.data(self._options.name, "*")
            handler = zenoh.handlers.Callback(self._drain.put, indirect=False)
            self._subscriber = self._session.declare_subscriber(key, handler)

    def send(self, target: str, header: bytes, payload: Payload) -> None:
        """Send one piece; see :meth:`partita.fabric.Endpoint.send`."""
        view = memoryview(payload).cast("B") if not isinstance(payload, bytes) else payload
        if len(view) > MAX_PIECE_BYTES:
            raise RunError(
                f"Piece for {target!r} has {len(view)} bytes, at most {MAX_PIECE_BYTES}.",
                device=target,
            )
        channel = self._channel(target)
        with channel.lock:
            if not channel.is_ready:
                self._await_target(channel)
            path = channel.path
            if path is not None:
                self._pass_on(channel, path, (header, view))
                return
            flow = channel.flow
            self._put(channel, flow.flow, flow.stage(header, view, time.monotonic()))
        self._hooks.wake()

    @staticmethod
    def _pass_on(channel: PeerChannel, path: LocalPath, piece: tuple[bytes, Payload]) -> None:
        """Send a piece through the local socket, which the kernel delivers reliably."""
        try:
            path.send(*piece)
        except OSError as error:
            channel.is_ready = False
            path.close()
            raise _not_sent(channel.target, error) from None

    def _channel(self, target: str) -> PeerChannel:
        with self._channels_lock:
            channel = self._channels.get(target)
            if channel is None:
                self._forget_channel()
                publisher = self._declare(target)
                channel = PeerChannel(target, publisher, Outflow(new_flow()))
                self._channels[target] = channel
            return channel

    def _forget_channel(self) -> None:
        """Of very many targets forget one that is gone: each leader has a name of its own."""
        if len(self._channels) < _MOST_CHANNELS:
            return
        for gone in [one for one in self._channels.values() if one.is_idle][:1]:
            del self._channels[gone.target]
            gone.publisher.undeclare()

    def _declare(self, target: str) -> Any:
        try:
            return self._session.declare_publisher(
                self._keys.data(target, self._options.name),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
        except zenoh.ZError as error:
            raise _not_sent(target, error) from None

    def _await_target(self, channel: PeerChannel) -> None:
        deadline_s = time.monotonic() + self._options.patience_s
        while not channel.publisher.matching_status.matching:
            if self._is_closed or time.monotonic() > deadline_s:
                raise unreachable(channel.target, set())
            time.sleep(_POLL_S)
        channel.path = self._open_path(channel.target)
        channel.is_ready = True

    def _open_path(self, target: str) -> LocalPath | None:
        """The way to a target on this host; None where there is none."""
        address = self._hooks.local_address(target) if self._local is not None else None
        try:
            return None if address is None else LocalPath(self._options.name, address)
        except OSError:
            return None

    def _put(self, channel: PeerChannel, flow: int, message: UnackedMessage) -> None:
        whole, size = message.payload, NETWORK_CHUNK_BYTES
        try:
            for envelope, start in cut_chunks(flow, message, size):
                is_whole = start == 0 and len(whole) <= size
                data = whole if is_whole else whole[start : start + size]
                # Zenoh takes bytes only; those that are bytes already are not copied here.
                channel.publisher.put(bytes(data), attachment=write_envelope(envelope, data))
        except zenoh.ZError as error:
            raise _not_sent(channel.target, error) from None
        self._flusher.wrote(channel.target, channel.flow.unacked_bytes)

    def _flush(self, target: str) -> None:
        with contextlib.suppress(zenoh.ZError, KeyError):  # whatever is wrong is seen by who sends
            self._channels[target].publisher.put(b"", attachment=FLUSH_MARK)

    def _take(self, sample: Any) -> None:
        attachment = sample.attachment.to_bytes() if sample.attachment else b""
        if attachment == FLUSH_MARK:
            return
        source, data = read_source(sample.key_expr), sample.payload.to_bytes()
        try:
            envelope = read_envelope(attachment, data)
        except DamagedError:
            self._ask_again(source)
            return
        except ValueError as error:
            self._hooks.fail(_rejected(source, f"no readable envelope: {error}"))
            return
        inflow = self._inflow(source, envelope.flow)
        if inflow is None:
            return
        try:
            whole = inflow.take(envelope, data)
        except ValueError as error:
            self._hooks.fail(_rejected(source, str(error)))
            return
        self._taken += 1
        inflow.taken = self._taken
        self._bound_halves(source)
        if whole is not None:
            self._hooks.deliver(source, *whole)
        self._unreported.add(source)
        self._hooks.wake()

    def _ask_again(self, source: str) -> None:
        """Report a gap where a damaged chunk would have been, which lets its sender repeat it."""
        _LOG.warning("a chunk from '%s' was damaged on its way and is asked for again", source)
        inflow = self._inflows.get(source)
        if inflow is not None:  # else the sender finds that nothing of its flow has come
            inflow.has_gap = True
            self._unreported.add(source)
            self._hooks.wake()

    def _inflow(self, source: str, flow: int) -> Inflow | None:
        """The flow that ``source`` sends now; None for a late chunk of one that it has given up."""
        inflow = self._inflows.get(source)
        if inflow is not None and inflow.flow == flow:
            return inflow
        past = self._past_flows[source]
        if flow in past:
            return None
        if inflow is not None:
            past.append(inflow.flow)
        if inflow is None:
            self._forget_oldest()
        self._inflows[source] = Inflow(flow)
        return self._inflows[source]

    def _bound_halves(self, source: str) -> None:
        """Drop the half messages that have waited longest; their senders are asked for them again.

        Args:
            source: Whose chunk has just come: its message stays.
        """
        others = [other for name, other in self._inflows.items() if name != source and other.parts]
        if not others:
            return
        others.sort(key=lambda other: other.taken)
        held = self._inflows[source].part_bytes + sum(other.part_bytes for other in others)
        for other in others:
            if held <= self._options.inbound_bytes:
                return
            held -= other.part_bytes
            other.restart()

    def _forget_oldest(self) -> None:
        """Make room for one more sender: who was silent for longest has to begin anew."""
        if len(self._inflows) >= self._options.max_senders:
            oldest = min(self._inflows, key=lambda name: self._inflows[name].taken)
            del self._inflows[oldest]
            self._past_flows.pop(oldest, None)
            self._unreported.discard(oldest)

    def take_signal(self, source: str, signal: Ack | AckRequest) -> None:
        """Act on a peer's acknowledgement or question."""
        if isinstance(signal, AckRequest):
            inflow = self._inflows.get(source)
            known = inflow is not None and inflow.flow == signal.flow
            report = inflow.report() if inflow and known else Ack(signal.flow, 0, 0, False)
            self._hooks.signal(source, report)
            return
        channel = self._channels.get(source)
        now_s = time.monotonic()
        if channel is not None and channel.flow.acknowledge(signal, now_s):
            self._resend(channel, now_s)

    def tick(self, now_s: float) -> bool:
        """Acknowledge, ask and resend as due; returns whether anything is unacknowledged."""
        while self._unreported:
            source = self._unreported.pop()
            inflow = self._inflows.get(source)
            if inflow is not None:
                self._hooks.signal(source, inflow.report())
        busy = False
        for channel in list(self._channels.values()):
            busy = busy or bool(channel.flow.unacked)
            stalled_s = channel.flow.stalled_s(now_s)
            if stalled_s > self._options.patience_s or channel.flow.resends > _MAX_RESENDS:
                self.drop(channel.target)
            elif stalled_s > _RESEND_S * 2**channel.flow.resends:
                channel.flow.resends += 1
                self._resend(channel, now_s)
            elif stalled_s > _ASK_S:
                self._hooks.signal(channel.target, AckRequest(channel.flow.flow))
        return busy

    def _resend(self, channel: PeerChannel, now_s: float) -> None:
        if channel.is_resending or now_s - channel.resent_s < _GAP_PAUSE_S:
            return
        channel.is_resending, channel.resent_s = True, now_s
        # On a thread of its own: a put may block on a full link, acknowledgements must not.
        threading.Thread(target=self._send_again, args=(channel,), daemon=True).start()

    def _send_again(self, channel: PeerChannel) -> None:
        try:
            with channel.lock:
                flow = channel.flow
                for message in list(flow.unacked):
                    self._put(channel, flow.flow, message)
        except RunError as error:
            self._hooks.fail(error)
        finally:
            channel.is_resending = False

    def drop(self, target: str) -> None:
        """Drop and report what ``target`` has not acknowledged, and begin a new flow."""
        channel = self._channels.get(target)
        if channel is None:
            return
        lost, channel.flow = len(channel.flow.unacked), Outflow(new_flow())
        channel.is_ready = False
        if channel.path is not None:
            lost += channel.path.unconsumed
            channel.path.close()
            channel.path = None
        if lost:
            message = (
                f"Link from {self._options.name!r} to {target!r} lost {lost} pieces: "
                "they were not received. Look at the link and at the device."
            )
            self._hooks.fail(LinkError(message, device=target))

    def forget(self, source: str) -> None:
        """Drop the half-received message of a peer that is gone."""
        inflow = self._inflows.get(source)
        if inflow is not None:
            inflow.restart()

    def links(self) -> list[Any]:
        """The connections of its session."""
        return list(self._session.info.links())

    def close(self) -> None:
        """Stop receiving and close the session."""
        self._is_closed = True
        self._flusher.close()
        if self._subscriber is not None:
            with contextlib.suppress(zenoh.ZError):  # the network is gone already
                self._subscriber.undeclare()
        close_session(self._session)
        self._drain.close()
        if self._local is not None:
            self._local.close()
        for channel in self._channels.values():
            if channel.path is not None:
                channel.path.close()


def _rejected(source: str, reason: str) -> RunError:
    return RunError(f"Frame from {source!r} rejected: {reason}.", device=source)


def _not_sent(target: str, error: Exception) -> LinkError:
    return LinkError(f"Piece for {target!r} not sent: {error}.", device=target)
