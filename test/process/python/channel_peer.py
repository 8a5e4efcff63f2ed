"""The Python side of python-channel.test.ts: channel_peer.py CLIENT_FOLDER SOCKET COMMAND [NAME...]; prints lines of JSON."""

import hashlib
import json
import sys

sys.dont_write_bytecode = True
folder, socket_path, command, *names = sys.argv[1:]
sys.path.insert(0, folder)

import cuda_ipc_channel as channel  # noqa: E402
import cuda_ipc_client as client  # noqa: E402

LIMIT = 60


def say(value):
    print(json.dumps(value), flush=True)


def heard():
    """A line of the test's, or the end of its input."""
    sys.stdin.readline()


def describe(message):
    return {
        "sequence": message.sequence,
        "missed": message.missed,
        "shape": list(message.shape),
        "meta": message.json if message.json is not None else message.meta.hex(),
        "sha256": hashlib.sha256(message.data).hexdigest(),
    }


def all_of(reader, each):
    """Every message until the end; how it ended."""
    try:
        while (message := reader.next(LIMIT)) is not None:
            with message:
                each(message)
    except channel.WriterGone:
        return "gone"
    return "closed"


def describes(hub):
    """Each message in words."""
    with channel.open_channel(hub, names[0], "oldest") as reader:
        say("reading")
        say(all_of(reader, lambda message: say(describe(message))))


def counts(hub):
    """Many messages, each of which holds its sequence in every byte; what was wrong with them, and how many there were."""
    wrong, seen = [], []

    def each(message):
        if message.data != bytes([message.sequence % 251]) * len(message.data) or message.json != message.sequence:
            wrong.append(message.sequence)
        seen.append((message.sequence, message.missed))

    with channel.open_channel(hub, names[0], "oldest", lossy="overtaken" in names) as reader:
        say("reading")
        end = all_of(reader, each)
        sequences = [sequence for sequence, _ in seen]
        in_order = all(later > earlier for earlier, later in zip(sequences, sequences[1:]))
        counted = sum(missed for _, missed in seen)
        say({"end": end, "wrong": wrong, "inOrder": in_order, "received": reader.received, "missed": reader.missed,
             "counted": counted, "first": sequences[:1], "last": sequences[-1:]})  # fmt: skip


def holds(hub):
    """One message while the test does something; then what it is, and what comes next."""
    with channel.open_channel(hub, names[0], "oldest", lossy="overtaken" in names) as reader:
        with reader.next(LIMIT) as message:
            say(describe(message))
            heard()
            say(describe(message))
        with reader.next(LIMIT) as message:
            say(describe(message))


def late(hub):
    """Begins, and takes its first message only when it is told to."""
    with channel.open_channel(hub, names[0], names[1], lossy=True) as reader:
        say("reading")
        heard()
        with reader.next(LIMIT) as message:
            say([message.sequence, message.missed, reader.missed])


def begins(hub):
    """Where readers begin that come late."""
    for start in ("oldest", "latest", "next"):
        with channel.open_channel(hub, names[0], start) as reader:
            message = reader.try_next()
            say(message and message.sequence)


def lies(hub):
    """Claims to have given back what was never there."""
    with channel.open_channel(hub, names[0]) as reader:
        reader._page.store(channel.P_RELEASED, 1 << 40)
        say("lied")
        heard()
        try:
            say(reader.next(LIMIT))
        except channel.ReaderExpelled as error:
            say(str(error))


def waits(hub):
    """For a message that never comes; how the wait ends."""
    reader = channel.open_channel(hub, names[0])
    say("reading")
    try:
        say(reader.next(LIMIT) is not None)
    except (ConnectionError, TimeoutError) as error:
        say(type(error).__name__)
    heard()


def refuses(hub):
    """What each name is refused with."""
    for name in names:
        try:
            channel.open_channel(hub, name).close()
            say(None)
        except (client.HubError, client.InvalidDescriptor) as error:
            say(str(error))


with client.connect(socket_path, program="channel_peer.py") as session:
    globals()[command](session)
