"""Two sites that do not reach each other, joined by a router in each."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from tests.acceptance.test_two_hosts import IN_NAMESPACES, Host, wait_for
from tests.cli.conftest import tiny_model

pytestmark = IN_NAMESPACES

CLUSTER = """
[cluster]
name = "garage"
requester = "near"

[[device]]
name = "near"
kind = "raspberry-pi-4"
address = "tcp/{net}.1.2:7447"

[[device]]
name = "far"
kind = "raspberry-pi-4"
address = "tcp/{far}:7447"

[[link]]
between = ["*", "*"]
bandwidth = "1 Gbit/s"
"""
_REACH = """
import socket
try:
    socket.create_connection(("{place}", 7447), 2)
except OSError:
    print("unreachable")
"""
NETS = {"near": 1, "far": 2}
#: The first two numbers of all addresses, a site's own one follows.
NET = f"10.{200 + os.getpid() % 50}"


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Host]]:
    """A host per site on a cable of its own to a third one, that of the routers; a model."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mark = f"pts{os.getpid()}"
    with contextlib.ExitStack() as stack:

        def make(*words: str) -> None:
            subprocess.run(("ip", *words), check=True)

        def make_space(name: str) -> None:
            make("netns", "add", f"{mark}-{name}")
            stack.callback(make, "netns", "del", f"{mark}-{name}")
            make("-n", f"{mark}-{name}", "link", "set", "lo", "up")

        make_space("between")
        for name, number in NETS.items():
            make_space(name)
            ends = ((name, "eth0", 2), ("between", name, 1))
            peer = ("netns", f"{mark}-between")
            make(
                *("-n", f"{mark}-{name}", "link", "add", "eth0", "type", "veth"),
                *("peer", "name", name, *peer),
            )
            for space, device, last in ends:
                within = ("-n", f"{mark}-{space}")
                make(*within, "address", "add", f"{NET}.{number}.{last}/24", "dev", device)
                make(*within, "link", "set", device, "up")
        hosts = {}
        for name in ("between", *NETS):
            hosts[name] = Host(f"{mark}-{name}", tmp_path / name)
            stack.callback(hosts[name].end)
        (hosts["near"].folder / "garage.toml").write_text(CLUSTER.format(net=NET, far=f"{NET}.1.1"))
        onnx.save(tiny_model(), hosts["near"].folder / "m.onnx")
        yield hosts


def test_a_run_across_two_routers(sites: dict[str, Host]) -> None:
    """The far worker is out of reach but for the routers, and computes its half all the same."""
    near, far, between = sites["near"], sites["far"], sites["between"]
    between.start(f"partita router --listen tcp/{NET}.1.1:7447 --insecure", "near.log")
    wait_for(between, "near.log", "router listens")
    other = f"partita router --listen tcp/{NET}.2.1:7447 --connect tcp/{NET}.1.1:7447 --insecure"
    between.start(other, "far.log")
    for number, (name, host) in enumerate((("near", near), ("far", far)), start=1):
        host.start(
            f"partita worker --name {name} --cluster-name garage --listen tcp/{NET}.{number}.2:7447"
            f" --connect tcp/{NET}.{number}.1:7447 --insecure --store store",
            "worker.log",
        )
    near.type("partita plan m.onnx --cluster garage.toml --planner equal_rows -o plan.json")
    for name, host in (("near", near), ("far", far)):
        wait_for(host, "worker.log", f"worker '{name}' listens")
    (near.folder / "reach.py").write_text(_REACH.format(place=f"{NET}.2.2"))
    assert near.type("python3 reach.py") == "unreachable"
    told = near.type("partita run plan.json --insecure --requests 3 --check")
    assert "the same answer" in told
    wait_for(far, "worker.log", "leader 'leader-")


#: Of the far worker: first as itself, then under a name and in a role that its file does not give.
_LIAR = """
import dataclasses, pathlib, sys
from partita.errors import RunError
from partita.fabric import ZenohEndpoint, ZenohOptions
from partita.fabric.join import read_join
path = pathlib.Path("far.join")
own = read_join(path).apply(ZenohOptions("far", connect=(sys.argv[1],)), "far.join")
for name, role in (("far", "worker"), ("leader-1f", "leader")):
    end = ZenohEndpoint(dataclasses.replace(own, name=name, role=role))
    try:
        end.info("near", 3.0)
        print("heard")
    except RunError:
        print("not heard")
    end.close()
"""


def test_join_files_hold_across_routers(sites: dict[str, Host]) -> None:
    """Who is in, in which role, and under which name, is the same on the far side."""
    near, far, between = sites["near"], sites["far"], sites["between"]
    (near.folder / "garage.toml").write_text(CLUSTER.format(net=NET, far=f"{NET}.2.2"))
    near.type("partita keys init site --cluster garage.toml")
    for name, number in (("edge", 1), ("beyond", 2)):
        near.type(f"partita keys add {name} --role router --address tcp/{NET}.{number}.1:7447")
    for name, host in (("edge", between), ("beyond", between), ("far", far)):
        near.type(f"cp site/{name}.join {host.folder}")
    for name in ("edge", "beyond"):
        between.start(f"partita router --join {name}.join", f"{name}.log")
    near.start("partita worker --join site/near.join --store store", "worker.log")
    (far.folder / "liar.py").write_text(_LIAR)
    wait_for(near, "worker.log", "worker 'near' listens")
    told = far.type(f"{sys.executable} liar.py tls/{NET}.2.1:7447")
    assert told.split("heard")[:2] == ["", " not "]
    far.start("partita worker --join far.join --store store", "worker.log")
    near.type("partita plan m.onnx --cluster garage.toml --planner equal_rows -o plan.json")
    wait_for(far, "worker.log", "worker 'far' listens")
    told = near.type("partita run plan.json --join site/leader.join --requests 3 --check")
    assert "the same answer" in told
    wait_for(far, "worker.log", "leader 'leader-")
    looked = near.type("partita doctor --cluster garage.toml --join site/front.join")
    assert looked.count("ready, version") == 2
