"""The HTTP front against the session that it stands before.

MobileNet-v2 runs on four emulated devices that each compute for a part of the time and sleep for
the rest, so that a core stays free. The same deployed session is asked directly in its own process,
and through the front from this one. One request at a time, the front may cost a millisecond more
than a server that does nothing but take the same bytes from the same client and give the same
answer. With eight under way at the same time it is to reach nearly the session's rate. Then twice
as many requests come as the service can carry, at fixed times: what is answered must be right, all
others get 503 with the time to wait, and nobody who is taken waits longer than the queue lasts.

    python -m benchmarks.front [--rounds 60] [--seconds 60] [--queue 16] [--json]
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tritonclient import http as triton

from benchmarks.front_service import IN_FLIGHT, MODEL
from benchmarks.harness import (
    PAUSE_S,
    Array,
    Row,
    at_least,
    at_most,
    draw_inputs,
    find_model,
    make_parser,
    open_session,
    report,
    say,
    shown,
    time_call,
)
from partita.graph import load_graph

MOST_OVER_ECHO_S, LEAST_RATE, LEAST_CARRIED, MOST_LATE = 0.001, 0.95, 0.95, 1.1
#: Requests that differ, so that an answer of another one is noticed.
SEEDS = 4
#: Clients of the overload: more than may be waiting for an answer.
CLIENTS = 96
PATH = f"/v2/models/{MODEL}/infer"
HEAD = "Inference-Header-Content-Length"


class Other:
    """Another process: where it listens, and what it answers to orders."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "benchmarks.front_service", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.place = ""

    def read(self) -> Any:
        """The next line that it says."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def start(self, data: bytes = b"") -> None:
        """Wait until it listens."""
        if data:
            assert self.process.stdin is not None
            self.process.stdin.write(data)
            self.process.stdin.close()
        self.place = self.read()["url"].removeprefix("http://")

    def order(self, **words: Any) -> Any:
        """What it says to an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()
        return self.read()


@contextmanager
def other(*words: str, data: bytes = b"") -> Iterator[Other]:
    """Another process, ended with the context."""
    made = Other(*words)
    try:
        made.start(data)
        yield made
    finally:
        if made.process.stdin is not None and not made.process.stdin.closed:
            made.process.stdin.close()  # which ends a service
        else:
            made.process.kill()
        made.process.wait()


@dataclass(frozen=True)
class Sent:
    """A request as bytes, with its header fields, and the right answer."""

    array: Array
    body: bytes
    headers: Mapping[str, str]
    expected: Array


def make_requests() -> tuple[list[Sent], str]:
    """Requests that differ, and the name of the input."""
    model = find_model(MODEL)
    graph = load_graph(model, name=MODEL)
    (source,) = graph.input_specs
    whole = open_session(model, 1)
    sent = []
    for seed in range(SEEDS):
        feeds = draw_inputs(graph, seed)
        array = feeds[source.name]
        body, length = triton.InferenceServerClient.generate_request_body(
            [input_of(source.name, array)]
        )
        sent.append(Sent(array, body, {HEAD: str(length)}, whole(feeds)[0]))
    return sent, source.name


def input_of(name: str, array: Array) -> triton.InferInput:
    """An input as the client has it."""
    made = triton.InferInput(name, list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


def is_right(answer: http.client.HTTPResponse, body: bytes, expected: Array) -> bool:
    """Whether an answer holds what the whole network answers."""
    length = int(answer.headers[HEAD])
    got = np.frombuffer(body[length:], np.float32)
    gap = float(np.abs(got - expected.ravel()).max())
    return gap <= 1e-5 * float(np.abs(expected).max())


class Client:
    """One connection that sends requests as they are."""

    def __init__(self, place: str) -> None:
        self._connection = http.client.HTTPConnection(place, timeout=60)

    def ask(self, sent: Sent) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer with its body."""
        self._connection.request("POST", PATH, sent.body, dict(sent.headers))
        answer = self._connection.getresponse()
        return answer, answer.read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def record_answer(place: str, sent: Sent) -> bytes:
    """The bytes of an answer, head and body."""
    client = Client(place)
    answer, body = client.ask(sent)
    client.close()
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.getheaders())
    return f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode() + body


def compare_latency(service: Other, sent: Sent, name: str, rounds: int) -> list[Row]:
    """One request at a time: through the front, directly, and the echo, in turns."""
    inputs = [input_of(name, sent.array)]
    with (
        other("echo", data=record_answer(service.place, sent)) as echo,
        triton.InferenceServerClient(service.place) as front_client,
        triton.InferenceServerClient(echo.place) as echo_client,
    ):
        times: dict[str, list[float]] = {"front": [], "session": [], "echo": []}
        for _ in range(rounds):
            for what, client in (("front", front_client), ("echo", echo_client)):
                time.sleep(PAUSE_S)
                times[what].append(time_call(partial(client.infer, MODEL, inputs)))
            time.sleep(PAUSE_S)
            times["session"].append(service.order(do="run")["seconds"])
    found = {what: statistics.median(seconds) for what, seconds in times.items()}
    say(f"one at a time: { ({what: f'{1e3 * s:.2f} ms' for what, s in found.items()}) }")
    over_s = found["front"] - found["session"]
    most_s = found["echo"] + MOST_OVER_ECHO_S
    case = "front over session, one at a time (beside an echo)"
    target = f"<= echo + {MOST_OVER_ECHO_S * 1e3:g} ms"
    row = Row(case, "ms", 1e3 * over_s, 1e3 * found["echo"], None, target, over_s <= most_s)
    return [row, shown("the session, one at a time", "ms", 1e3 * found["session"])]


def compare_rates(service: Other, sent: Sequence[Sent], requests: int) -> tuple[list[Row], float]:
    """Eight at the same time, in turns; and what the session carries alone."""
    rates: dict[str, list[float]] = {"front": [], "session": []}
    clients = [Client(service.place) for _ in range(IN_FLIGHT)]

    def ask(client: Client, left: Iterator[int]) -> None:
        for number in left:
            answer, body = client.ask(sent[number % len(sent)])
            assert answer.status == 200, body
            assert is_right(answer, body, sent[number % len(sent)].expected)

    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for _ in range(3):
            left = iter(range(requests))
            start_s = time.perf_counter()
            list(pool.map(ask, clients, [left] * IN_FLIGHT))
            rates["front"].append(requests / (time.perf_counter() - start_s))
            direct = service.order(do="run", count=requests, in_flight=IN_FLIGHT)
            rates["session"].append(requests / direct["seconds"])
    for client in clients:
        client.close()
    found = {what: statistics.median(values) for what, values in rates.items()}
    ratio = found["front"] / found["session"]
    say(f"eight at a time: {found['front']:.1f}/s, session {found['session']:.1f}/s")
    case = "front, eight at a time (beside session)"
    target = f">= {LEAST_RATE:g}"
    row = Row(case, "1/s", found["front"], found["session"], ratio, target, ratio >= LEAST_RATE)
    return [row], found["session"]


@dataclass
class Tally:
    """What became of the requests of an overload."""

    taken_s: list[float]
    refused: int = 0
    wrong: int = 0
    late_s: float = 0.0


def overload(place: str, sent: Sequence[Sent], per_second: float, seconds: float) -> Tally:
    """Send requests at fixed times, whatever becomes of them."""
    tally, lock, own = Tally([]), threading.Lock(), threading.local()
    with ExitStack() as stack, ThreadPoolExecutor(CLIENTS) as pool:

        def ask(number: int, due_s: float) -> None:
            if not hasattr(own, "client"):
                own.client = Client(place)
                stack.callback(own.client.close)
            start_s = time.perf_counter()
            one = sent[number % len(sent)]
            answer, body = own.client.ask(one)
            took_s = time.perf_counter() - start_s
            is_taken = answer.status == 200
            is_told = answer.status == 503 and answer.headers["Retry-After"] is not None
            is_fine = is_right(answer, body, one.expected) if is_taken else is_told
            with lock:
                tally.late_s = max(tally.late_s, start_s - due_s)
                tally.wrong += not is_fine
                tally.refused += not is_taken
                if is_taken:
                    tally.taken_s.append(took_s)

        begin_s = time.perf_counter()
        asked = []
        for number in range(round(per_second * seconds)):
            due_s = begin_s + number / per_second
            time.sleep(max(0.0, due_s - time.perf_counter()))
            asked.append(pool.submit(ask, number, due_s))
        for future in asked:
            future.result()
    return tally


def judge_overload(service: Other, sent: Sequence[Sent], capacity: float, args: Any) -> list[Row]:
    """Twice what the session carries, for a while."""
    before_bytes = service.order(do="")["memory_bytes"]
    start_s = time.perf_counter()
    tally = overload(service.place, sent, 2 * capacity, args.seconds)
    took_s = time.perf_counter() - start_s
    grown = service.order(do="")["memory_bytes"] - before_bytes
    rate = len(tally.taken_s) / took_s
    p99_s = float(np.quantile(tally.taken_s, 0.99))
    most_s = (args.queue + IN_FLIGHT) / capacity * MOST_LATE
    total = len(tally.taken_s) + tally.refused
    case = f"overload, {total} requests at {2 * capacity:.0f}/s"
    say(f"{case}: {len(tally.taken_s)} answered, {tally.refused} refused, {tally.wrong} wrong")
    ratio = rate / capacity
    target = f">= {LEAST_CARRIED:g}"
    return [
        Row(f"{case}: answered", "1/s", rate, capacity, ratio, target, ratio >= LEAST_CARRIED),
        at_most(f"{case}: neither right nor 503", "", tally.wrong, 0),
        at_most(f"{case}: p99 of what was taken", "s", p99_s, most_s),
        at_least(f"{case}: refused", "", tally.refused, 1),
        shown(f"{case}: a client was late by, at most", "ms", 1e3 * tally.late_s),
        shown(f"{case}: the service's memory grew by", "MB", grown / 1e6),
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="of one request at a time")
    parser.add_argument("--requests", type=int, default=160, help="of eight at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="of overload")
    parser.add_argument("--queue", type=int, default=16, help="requests that may wait")
    args = parser.parse_args()
    sent, name = make_requests()
    with other("serve", str(args.queue), str(SEEDS)) as service:
        rows = compare_latency(service, sent[0], name, args.rounds)
        more, capacity = compare_rates(service, sent, args.requests)
        rows += more + judge_overload(service, sent, capacity, args)
    return report(rows, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
