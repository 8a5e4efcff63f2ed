"""Python side of python-client.test.ts: peer.py CLIENT_FOLDER SOCKET COMMAND [NAME...]

Prints lines of JSON.
"""

import hashlib
import json
import os
import struct
import sys

sys.dont_write_bytecode = True
folder, socket_path, command, *names = sys.argv[1:]
sys.path.insert(0, folder)

import cuda_ipc_client as client  # noqa: E402


def say(value):
    print(json.dumps(value), flush=True)


def describe(array):
    return {
        "dtype": array.dtype,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }


def describe_all(shared):
    return {name or "": describe(array) for name, array in shared.arrays.items()}


def attempt(action):
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return None


def fill(array):
    array.write(bytes(array.nbytes))


def read(hub):
    for name in names:
        with hub.open(name) as shared:
            say({
                "arrays": describe_all(shared),
                "metadata": shared.metadata,
                "writing": attempt(lambda: fill(next(iter(shared.arrays.values())))),
            })
    say([target for target in map(link, os.listdir("/proc/self/fd")) if target.startswith("/memfd:")])


def refuse(hub):
    for name in names:
        try:
            hub.open(name)
        except client.NotOpenedHere as error:
            say(str(error))
    say(len([entry for entry in hub.list() if entry["leases"] > 1]))


def link(fd):
    """The target of a descriptor. Empty for the closed descriptor of the listing itself."""
    path = f"/proc/self/fd/{fd}"
    return os.readlink(path) if os.path.lexists(path) else ""


def write(hub):
    """Share until the input ends, then disconnect."""
    weights = hub.create("py:weights", "float32", [2, 3])
    weights.array.write(struct.pack("<6f", 1.5, -2.5, 3.5, -0.0, float("inf"), 1e-45))
    counts = hub.create("py:counts", "int64", [2], pinned=True)
    counts.array.write(struct.pack("<2q", 2**53 + 1, -(2**63)))
    scalar = hub.create("py:scalar", "bfloat16", [])
    scalar.array.write(b"\x80\x3f")
    empty = hub.create("py:empty", "float64", [0, 4])
    bundle = hub.create_bundle(
        "py:bundle",
        {"a": ("complex64", (2,)), "empty": ("uint8", (3, 0)), "größe/b": ("bool", (5,))},
        {"made": "by Python"},
    )
    bundle.arrays["a"].write(struct.pack("<4f", 1, 2, 3, 4))
    bundle.arrays["größe/b"].write(bytes([1, 0, 1, 1, 0]))
    shared = (weights, counts, scalar, empty, reverse(hub), bundle)
    say(attempt(lambda: hub.open("py:weights")))
    for one in shared:
        one.publish()
    say({one.name: describe_all(one) for one in shared})
    sys.stdin.read()
    say({"weights": weights.array.values()[0]})
    hub.remove("py:counts")


def reverse(hub):
    """Elements 6 8 10 0 2 4 of counting int16 memory: one stride is negative, one leaves gaps."""
    layout = {"dtype": "int16", "shape": [2, 3], "strides": [-6, 2], "byteOffset": 12}
    shared = hub._create("py:reverse", 24, {"kind": "array", "array": layout}, [], False)
    shared.array.memory.write(0, struct.pack("<12h", *range(12)))
    return shared


def wait(hub):
    with hub.open(names[0], wait=True) as shared:
        say(describe(shared.array))


def give_up(hub):
    say(attempt(lambda: hub.open(names[0], wait=True, timeout=0.01)))
    say(hub.status()["waitingOpens"])
    with hub.create(names[0], "uint8", [1]) as shared:
        shared.publish()
        say([entry["name"] for entry in hub.list()])
        say([holder["access"] for holder in hub.inspect(names[0])["holders"]])


def many(hub):
    """List more objects than one page holds."""
    for n in range(int(names[0])):
        hub.create(f"many:{n:05}", "uint8", [1]).publish()
    listed = [entry["name"] for entry in hub.list()]
    say({"listed": len(listed), "sorted": listed == sorted(set(listed))})


def raw(hub):
    """Send each packet in its own session. Print the reply and whether the session ended."""
    for name, packet in {
        "not JSON": b"\x00garbage",
        "an unknown operation": b'{"v":1,"id":7,"op":"explode"}',
        "another version": b'{"v":2,"id":8,"op":"status"}',
        "too large": b'{"v":1,"id":9,"op":"status"}'.ljust(client.MAX_PACKET + 1),
        "a name nobody shares": b'{"v":1,"id":10,"op":"inspect","name":"nobody"}',
    }.items():
        session = client.connect(socket_path)
        session._socket.send(packet)
        reply, _, _ = session._packet(None)
        try:
            ended = session.request("status") is None
        except ConnectionError:
            ended = True
        say({"packet": name, "id": reply["id"], "code": reply["error"]["code"], "ended": ended})
        session._socket.close() if ended else session.bye()


with client.connect(socket_path, program="peer.py") as session:
    globals()[command](session)
