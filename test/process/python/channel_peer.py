"""Python side of python-channel.test.ts: channel_peer.py CLIENT_FOLDER SOCKET COMMAND [NAME...]

Prints lines of JSON.
"""

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
    """Wait for a line from the test, or for the end of its input."""
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
    """Pass each message to `each` until the channel ends. Returns how it ended."""
    try:
        while (message := reader.next(LIMIT)) is not None:
            with message:
                each(message)
    except channel.WriterGone:
        return "gone"
    return "closed"


def describes(hub):
    """Print each message."""
    with channel.open_channel(hub, names[0], "oldest") as reader:
        say("reading")
        say(all_of(reader, lambda message: say(describe(message))))


def counts(hub):
    """Check messages whose bytes all hold their sequence. Prints the wrong ones and the counts."""
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
    """Hold a message until the test sends a line. Prints it before and after, then the next one."""
    with channel.open_channel(hub, names[0], "oldest", lossy="overtaken" in names) as reader:
        with reader.next(LIMIT) as message:
            say(describe(message))
            heard()
            say(describe(message))
        with reader.next(LIMIT) as message:
            say(describe(message))


def late(hub):
    """Attach, and take the first message when the test sends a line."""
    with channel.open_channel(hub, names[0], names[1], lossy=True) as reader:
        say("reading")
        heard()
        with reader.next(LIMIT) as message:
            say([message.sequence, message.missed, reader.missed])


def begins(hub):
    """Print the first message of a late reader for each start."""
    for start in ("oldest", "latest", "next"):
        with channel.open_channel(hub, names[0], start) as reader:
            message = reader.try_next()
            say(message and message.sequence)


def lies(hub):
    """Claim to have released positions that do not exist."""
    with channel.open_channel(hub, names[0]) as reader:
        reader._page.store(channel.P_RELEASED, 1 << 40)
        say("lied")
        heard()
        try:
            say(reader.next(LIMIT))
        except channel.ReaderExpelled as error:
            say(str(error))


def waits(hub):
    """Wait for a message that never comes. Prints how the wait ends."""
    reader = channel.open_channel(hub, names[0])
    say("reading")
    try:
        say(reader.next(LIMIT) is not None)
    except (ConnectionError, TimeoutError) as error:
        say(type(error).__name__)
    heard()


def refuses(hub):
    """Print the error of opening each name."""
    for name in names:
        try:
            channel.open_channel(hub, name).close()
            say(None)
        except (client.HubError, client.InvalidDescriptor) as error:
            say(str(error))


with client.connect(socket_path, program="channel_peer.py") as session:
    globals()[command](session)
