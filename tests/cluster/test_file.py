"""The cluster file: what it says, and what happens when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.cluster import Cluster, Device, Link, dump_cluster, load_cluster
from partita.errors import ClusterError
from partita.execution import Port

GOOD = """
[cluster]
name = "lab"
requester = "camera"

[[device]]
name = "camera"
kind = "raspberry-pi-4"
memory = "1 GB"
threads = 4

[[device]]
name = "nano-1"
kind = "jetson-nano"
port = "94.1 Mbit/s"
swap = "1 MB/s"
address = "tcp/192.0.2.7:7447"

[[device]]
name = "box"
profile = "box.profile.json"
memory = "2 GiB"
provider = "CUDAExecutionProvider"
precisions = ["float32", "float16"]

[[link]]
between = ["*", "*"]
bandwidth = "200 Mbit/s"
latency = "2 ms"

[[link]]
between = ["camera", "*"]
medium = "radio"
per_message = "0.3 ms"

[[link]]
from = "box"
to = "camera"
bandwidth = "50 Mbit/s"

[lab]
slow_down = { camera = 24, box = 8.5 }
seed = 3
"""


def test_file_gives_devices_links_and_lab() -> None:
    """Every key of the format arrives, in SI units, with defaults from the catalogue."""
    cluster = load_cluster(GOOD.encode())
    camera, nano, box = cluster.devices
    assert (cluster.name, cluster.requester, cluster.lab.seed) == ("lab", "camera", 3)
    assert (camera.memory_bytes, camera.threads, camera.slow_down) == (10**9, 4, 24.0)
    assert (nano.memory_bytes, nano.precisions) == (4 * 10**9, ("float32", "float16"))
    assert (nano.port_bytes_per_s, nano.swap_bytes_per_s) == (94.1e6 / 8, 1e6)
    assert (box.kind, box.profile, box.memory_bytes) == (
        "this-machine",
        "box.profile.json",
        2 * 2**30,
    )
    link = cluster.link("nano-1", "camera")
    ports = (Port("nano-1 out", 94.1e6 / 8),)
    assert link == Link("nano-1", "camera", 25e6, 0.002, 0.0003, "radio", ports=ports)


def test_later_links_override_earlier_ones_key_by_key() -> None:
    """A later table changes what it names, in its direction, and keeps the rest."""
    cluster = load_cluster(GOOD.encode())
    down, up = cluster.link("box", "camera"), cluster.link("camera", "box")
    assert down is not None
    assert up is not None
    assert (down.bandwidth_bytes_per_s, down.latency_s, down.medium) == (6.25e6, 0.002, "radio")
    assert up.bandwidth_bytes_per_s == 25e6
    ports = (Port("nano-1 in", 94.1e6 / 8),)
    assert cluster.link("box", "nano-1") == Link("box", "nano-1", 25e6, 0.002, ports=ports)
    assert cluster.link("box", "box") is None


def test_dump_and_load_give_the_same_cluster() -> None:
    """Writing a cluster and reading it back changes nothing."""
    cluster = load_cluster(GOOD.encode())
    assert load_cluster(dump_cluster(cluster).encode()) == cluster


def test_written_quantities_have_units_for_people() -> None:
    """What was written in a unit is written in it again."""
    text = dump_cluster(load_cluster(GOOD.encode()))
    for words in (
        *('memory = "1 GB"', 'memory = "2 GiB"', 'port = "94.1 Mbit/s"', 'swap = "1 MB/s"'),
        *('bandwidth = "200 Mbit/s"', 'latency = "2 ms"', 'per_message = "300 us"'),
    ):
        assert words in text


@given(
    st.integers(1, 10**15), *(st.floats(1 / 8, 1.25e12) for _ in range(3)), st.floats(0.0, 3600.0)
)
def test_any_quantity_is_read_back_as_it_was(
    memory: int, port: float, swap: float, bandwidth: float, seconds: float
) -> None:
    """To the last bit, whatever unit it is written in."""
    device = Device(
        "a", memory_bytes=memory, port_bytes_per_s=port, swap_bytes_per_s=swap, slow_down=3.0
    )
    link = Link("a", "b", bandwidth, latency_s=seconds, per_message_s=seconds / 3)
    cluster = Cluster.of([device, Device("b")], links=[link])
    assert load_cluster(dump_cluster(cluster).encode()) == cluster


def test_an_address_and_memory_are_enough_for_a_board() -> None:
    """A board that is yet to be measured needs no kind; its file is written without one."""
    text = GOOD.replace('kind = "jetson-nano"', 'memory = "1 GB"')
    cluster = load_cluster(text.encode())
    assert cluster.device("nano-1").kind == "unmeasured"
    assert load_cluster(dump_cluster(cluster).encode()) == cluster
    with pytest.raises(ClusterError, match=r"device\[1\].kind: 'unmeasured' is unknown"):
        load_cluster(GOOD.replace("jetson-nano", "unmeasured").encode())


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """Profiles and traces named in a file are found beside it."""
    (tmp_path / "air.csv").write_text("time_s,bandwidth\n0,50 Mbit/s\n20,8 Mbit/s\n")
    (tmp_path / "lab.toml").write_text(
        GOOD + '\n[[link]]\nbetween = ["camera", "box"]\ntrace = "air.csv"\n'
    )
    cluster = load_cluster(tmp_path / "lab.toml")
    link = cluster.link("camera", "box")
    assert cluster.device("box").profile == str(tmp_path / "box.profile.json")
    assert link is not None
    assert [link.bandwidth_at(time_s) for time_s in (0.0, 19.9, 20.0, 1e6)] == [
        6.25e6,
        6.25e6,
        1e6,
        1e6,
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('requester = "camera"', 'requester = "cam"', "cluster.requester: 'cam' is not a device"),
        ('requester = "camera"', "", "cluster.requester: missing"),
        ('name = "lab"', 'name = "lab"\ncolour = "red"', "cluster.colour: unknown key"),
        ('"raspberry-pi-4"', '"raspberry-pi-9"', "device[0].kind: 'raspberry-pi-9' is unknown"),
        ('"1 GB"', '"1"', "device[0].memory: '1' has no unit; allowed units: B, kB, MB"),
        ('"1 GB"', "1000", "device[0].memory: 1000 is not a number with a unit"),
        ("threads = 4", "threads = 0", "device[0].threads: 0 must be a whole number"),
        ('name = "nano-1"', 'name = "camera"', "name 'camera' is used 2 times"),
        (
            'kind = "raspberry-pi-4"',
            "",
            "device[0]: needs kind, profile, array or a worker's address; ki",
        ),
        ('kind = "jetson-nano"', "", "device[1].memory: missing; only kinds of the catalogue"),
        ('memory = "2 GiB"', "", "device[2].memory: missing"),
        ('"CUDAExecutionProvider"', '"GPU"', "device[2].provider: 'GPU' is unknown"),
        ('"float16"]', '"float8"]', "device[2].precisions: 'float8' is unknown"),
        ('["camera", "*"]', '["camera", "moon"]', "link[1]: 'moon' is not a device"),
        ('["camera", "*"]', '["camera"]', "link[1].between: ['camera'] has 1 entries, must have 2"),
        ('["camera", "*"]', '["camera", "camera"]', "link[1]: 'camera' is linked to itself"),
        ('to = "camera"', "", "link[2]: needs either between = [a, b], or both from and to"),
        ('"94.1 Mbit/s"', '"0 Mbit/s"', "device[1].port: '0 Mbit/s' must be from 1 bit/s to 10000"),
        ('"94.1 Mbit/s"', '"-1 Mbit/s"', "device[1].port: '-1 Mbit/s' must be from 1 bit/s to"),
        ('"1 MB/s"', '"0 MB/s"', "device[1].swap: '0 MB/s' must be from 1 bit/s to 10000 Gbit/s"),
        ('"94.1 Mbit/s"', "94.1", "device[1].port: 94.1 is not a number with a unit"),
        ('"200 Mbit/s"', '"200"', "link[0].bandwidth: '200' has no unit"),
        ('"200 Mbit/s"', '"0 Mbit/s"', "link[0].bandwidth: '0 Mbit/s' must be from 1 bit/s to"),
        ('"200 Mbit/s"', '"-5 Mbit/s"', "link[0].bandwidth: '-5 Mbit/s' must be from 1 bit"),
        ('bandwidth = "200 Mbit/s"', "", "bandwidth is missing"),
        ('medium = "radio"', 'trace = "no.csv"', "link[1].trace: trace 'no.csv' cannot be read"),
        ("camera = 24", "camera = 0.5", "lab.slow_down.camera: 0.5 must be a number without"),
        ("camera = 24", "moon = 24", "lab.slow_down.moon: 'moon' is not a device"),
        ('name = "lab"', 'name = "a/b"', "cluster.name: 'a/b' cannot be a name; allowed are 1 to"),
        ('name = "nano-1"', 'name = "**"', "device[1].name: '**' cannot be a name"),
        ('"1 GB"', '"1e300 GB"', "device[0].memory: '1e300 GB' is too large a number"),
        ('"1 GB"', '"1e200 GB"', "device[0].memory: '1e200 GB' must be from 1 B to 1000000 GB"),
        ("threads = 4", "threads = 5000", "threads: 5000 must be a whole number from 1 to 1024"),
        ("camera = 24", "camera = 1e300", "must be a number without unit from 1 to 10000"),
        ("camera = 24", "camera = inf", "must be a number without unit from 1 to 10000"),
        ("camera = 24", "camera = nan", "must be a number without unit from 1 to 10000"),
        ('"200 Mbit/s"', '"1e9 GB/s"', "bandwidth: '1e9 GB/s' must be from 1 bit/s to 10000 Gbit"),
        ('"2 ms"', '"2 h"', "link[0].latency: '2 h' must be from 0 s to 1 h"),
        ('"tcp/192.0.2.7:7447"', '"here"', "device[1].address: 'here' cannot be an address; allow"),
        ("192.0.2.7:7447", "192.0.2.7:99999", "device[1].address: 'tcp/192.0.2.7:99999' cannot"),
        ("tcp/192", "udp/192", "of tcp, tls, quic, ws and a port from 1 to 65534"),
        ('medium = "radio"', 'trace = "/dev/zero"', "trace '/dev/zero' cannot be read: it is no"),
        ("[lab]", "[laboratory]", "laboratory: unknown section; allowed are cluster, device"),
    ],
)
def test_a_broken_rule_is_named_with_key_and_allowed_values(
    before: str, after: str, expected: str
) -> None:
    """Each rule of the format, broken once, gives one line that names key and rule."""
    assert before in GOOD
    with pytest.raises(ClusterError) as caught:
        load_cluster(GOOD.replace(before, after, 1).encode())
    assert expected in caught.value.message
    assert "\n" not in caught.value.message


def test_all_broken_rules_are_listed() -> None:
    """Three faults in one file give one error with three entries, none of them twice."""
    text = GOOD.replace('"1 GB"', '"1"').replace("200 Mbit/s", "fast").replace("seed = 3", "")
    text = text.replace('kind = "jetson-nano"', 'kind = "jetson"')
    with pytest.raises(ClusterError, match="breaks 3 rules"):
        load_cluster(text.encode())


def test_one_wrong_value_of_many_boards_is_told_once() -> None:
    """The first is told in full, the next few by their place, the others by their number."""
    boards = (
        f'[[device]]\nname = "pi-{number}"\nkind = "raspberry-pi-3"\nmemory = "-3 MB"\n'
        for number in range(10)
    )
    with pytest.raises(ClusterError) as caught:
        load_cluster(b'[cluster]\nrequester = "pi-0"\n' + "".join(boards).encode())
    rule = "device[0].memory: '-3 MB' must be from 1 B to 1000000 GB"
    others = ", ".join(f"device[{number}]" for number in range(1, 5))
    assert f"breaks 1 rule: {rule} (and so for {others}, 5 more)." in caught.value.message


def test_types_and_rules_are_judged_in_one_pass() -> None:
    """What is wrong in a table hides nothing else of it, and nothing that refers to it."""
    text = """
    [cluster]
    requester = "two words"
    [[device]]
    name = "two words"
    kind = "raspberry-pi-3"
    [[device]]
    name = "box"
    threads = 0
    [[device]]
    name = "pad"
    address = "tcp/192.0.2.7:7447"
    port = "fast"
    [[link]]
    between = ["box", "pad"]
    bandwidth = "200"
    [[link]]
    between = ["two words", "pad"]
    [[link]]
    from = "pad"
    latency = "soon"
    [lab]
    slow_down = { box = 0, moon = 2 }
    """
    with pytest.raises(ClusterError) as caught:
        load_cluster(text.encode())
    expected = [
        "breaks 11 rules: lab.slow_down.box: 0 must be",
        "device[0].name: 'two words' cannot be a name",
        "device[1].threads: 0 must be",
        "device[1]: needs kind, profile, array or",
        "device[2].port: 'fast' is not a number",
        "device[2].memory: missing",
        "lab.slow_down.moon: 'moon' is not a device",
        "link[0].bandwidth: '200' has no unit",
        "link[2].latency: 'soon' is not a number",
        "link[2]: needs either between",
        "link 'two words' -> 'pad': bandwidth is missing (and so for link 'pad' -> 'two words')",
    ]
    places = [caught.value.message.find(words) for words in expected]
    assert min(places) > 0
    assert places == sorted(places)


def test_toml_fault_names_the_line() -> None:
    """A syntax error names its line."""
    with pytest.raises(ClusterError, match=r"is not TOML: .*line 3"):
        load_cluster(b"[cluster]\nname = 'a'\nrequester =\n")


def test_missing_file_is_a_cluster_error(tmp_path: Path) -> None:
    """A path that does not exist is one line, not a traceback from the system."""
    with pytest.raises(ClusterError, match="cannot be read"):
        load_cluster(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "line 1 must be time_s,bandwidth"),
        ("time_s,bandwidth\n", "has no point"),
        ("time_s,bandwidth\n0,50\n", "line 2: '50' has no unit"),
        ("time_s,bandwidth\n0,1 MB/s\n0,2 MB/s\n", "line 3: time 0 s must be above"),
        ("time_s,bandwidth\nsoon,1 MB/s\n", "line 2"),
        ("time_s,bandwidth\n1\n", "line 2 has 1 cells"),
        ("time_s,bandwidth\n1,0 MB/s\n", "bandwidth must be from 1 bit/s"),
    ],
)
def test_a_broken_trace_names_the_line(tmp_path: Path, content: str, expected: str) -> None:
    """A trace that breaks a rule is a fault of the cluster file that names the CSV line."""
    (tmp_path / "air.csv").write_text(content)
    (tmp_path / "lab.toml").write_text(GOOD.replace('medium = "radio"', 'trace = "air.csv"'))
    with pytest.raises(ClusterError) as caught:
        load_cluster(tmp_path / "lab.toml")
    assert expected in caught.value.message


def test_hash_is_of_structure_only() -> None:
    """Measured values do not change the hash; names, kinds, links and media do."""
    cluster = load_cluster(GOOD.encode())
    same = GOOD.replace("200 Mbit/s", "9 Mbit/s").replace("1 GB", "2 GB").replace("24", "3")
    assert load_cluster(same.encode()).hash == cluster.hash
    for before, after in (
        ('"jetson-nano"', '"jetson-tx2"'),
        ('"radio"', '"wire"'),
        ('"nano-1"', '"nano-2"'),
        ('requester = "camera"', 'requester = "box"'),
    ):
        assert load_cluster(GOOD.replace(before, after).encode()).hash != cluster.hash


def test_cluster_from_names_links_every_pair() -> None:
    """The constructor for programs links all pairs and takes the first device as requester."""
    cluster = Cluster.of(["a", Device("b", slow_down=4.0)], bandwidth_bytes_per_s=1e6)
    assert cluster.requester == "a"
    assert [(link.source, link.target) for link in cluster.links] == [("a", "b"), ("b", "a")]
    assert cluster.without("b").links == ()
    faster = cluster.with_bandwidth({("a", "b"): 5e6}).link("a", "b")
    assert faster is not None
    assert faster.bandwidth_bytes_per_s == 5e6


def test_cluster_from_parts_is_checked() -> None:
    """The constructor refuses what the file refuses."""
    with pytest.raises(ClusterError, match="breaks 2 rules"):
        Cluster.of(["a", "a"], requester="b", links=[])
    with pytest.raises(ClusterError, match="'c' is not a device"):
        Cluster.of(["a"], links=[Link("a", "c", 1.0)])
    with pytest.raises(ClusterError, match="device 'a' port: 0 B/s, must be above 0 B/s"):
        Cluster.of([Device("a", port_bytes_per_s=0.0)])
    with pytest.raises(ClusterError, match="Device 'z' is not in cluster"):
        Cluster.of(["a"]).device("z")


@pytest.mark.parametrize("port", ["7447", "7448"])
def test_devices_do_not_share_ports(port: str) -> None:
    """Two devices at one address, or one at the other's control port, are refused."""
    text = GOOD.replace("threads = 4", f'threads = 4\naddress = "tcp/192.0.2.7:{port}"')
    with pytest.raises(ClusterError, match=r"'nano-1' address: .* shares a port with .*'camera'"):
        load_cluster(text.encode())


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    """Editors that begin a file with a mark write cluster files and traces too."""
    (tmp_path / "air.csv").write_text("time_s,bandwidth\n0,1 MB/s\n", encoding="utf-8-sig")
    text = GOOD.replace('medium = "radio"', 'trace = "air.csv"')
    (tmp_path / "lab.toml").write_text(text, encoding="utf-8-sig")
    assert load_cluster(tmp_path / "lab.toml").links[0].trace == ((0.0, 1e6),)


def test_a_device_file_is_not_read_for_ever() -> None:
    """A path that is no regular file is refused at once."""
    with pytest.raises(ClusterError, match="cannot be read: it is no regular file"):
        load_cluster("/dev/zero")


def test_a_missing_trace_is_told_once(tmp_path: Path) -> None:
    """The message has the path once and no number of the system's."""
    (tmp_path / "lab.toml").write_text(GOOD.replace('medium = "radio"', 'trace = "no.csv"'))
    with pytest.raises(ClusterError) as caught:
        load_cluster(tmp_path / "lab.toml")
    assert caught.value.message.count("no.csv") == 1
    assert "Errno" not in caught.value.message


def test_requester_may_only_ask() -> None:
    """A device with ``computes = false`` is no provider, also after the file was written again."""
    text = GOOD.replace('kind = "raspberry-pi-4"\n', 'kind = "raspberry-pi-4"\ncomputes = false\n')
    cluster = load_cluster(text.encode())
    assert cluster.providers == ("nano-1", "box")
    assert load_cluster(dump_cluster(cluster).encode()).providers == cluster.providers


def test_some_device_computes() -> None:
    """A cluster in which every device only asks breaks a rule."""
    with pytest.raises(ClusterError, match="no device computes"):
        Cluster.of([Device("phone", computes=False)])
