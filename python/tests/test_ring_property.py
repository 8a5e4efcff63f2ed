"""The ring against Node, at random: what is read is what was written, in order and whole.

`SEED=number` repeats a run that printed this seed.
"""

from __future__ import annotations

import json
import os
import random
import threading

import pytest
from conftest import LIMIT

import cuda_ipc

ROUNDS = int(os.environ.get("ROUNDS", "4"))


@pytest.fixture
def source() -> random.Random:
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print(f"SEED={seed}")
    return random.Random(seed)


def sum_up(reader: cuda_ipc.ChannelReader, source: random.Random, holds: int) -> dict:
    """Reads to the end, holds some messages for a while, and gives them back in any order."""
    wrong: list[int] = []
    held: list[cuda_ipc.Message] = []
    last, counted = -1, 0

    def check(message: cuda_ipc.Message) -> None:
        if message.data != bytes([message.sequence % 251]) * message.byte_length:
            wrong.append(message.sequence)

    def give_back(one: cuda_ipc.Message) -> None:
        check(one)
        one.release()

    while True:
        message = reader.try_next()
        if message is None:
            # The writer may wait for what is held here.
            while held:
                give_back(held.pop())
            message = reader.next(LIMIT)
            if message is None:
                break
        if message.sequence != last + 1 + message.missed:
            wrong.append(message.sequence)
        last, counted = message.sequence, counted + message.missed
        check(message)
        held.append(message)
        while len(held) > holds or (held and source.random() < 0.6):
            give_back(held.pop(source.randrange(len(held))))
    return {"wrong": wrong, "last": last, "all": reader.received + counted}


@pytest.mark.parametrize("writer_is", ["python", "node"])
def test_readers_of_both_kinds_on_both_sides(hub, node, source, writer_is):
    for turn in range(ROUNDS):
        slots = source.choice([1, 2, 3, 8, 33])
        when_full = source.choice(["wait", "wait", "drop-oldest"])
        count = source.randrange(200, 1500)
        name = f"ring:{writer_is}:{turn}"
        plan = {
            "slots": slots,
            "whenFull": when_full,
            "count": count,
            "readersMax": 6,
            "shape": [source.choice([1, 64, 5000])],
        }
        print(plan)
        writer: cuda_ipc.ChannelWriter | None = None
        peer = None
        if writer_is == "python":
            writer = hub.create_channel(
                name, "uint8", plan["shape"], slots=slots, readers_max=6, when_full=when_full
            )
        else:
            peer = node("channel", "write", name, json.dumps(plan))
            assert peer.said() == "open"
        lossy = [source.random() < 0.5 for _ in range(4)]
        readers = [hub.open_channel(name, start="oldest", lossy=one) for one in lossy[:2]]
        others = [node("channel", "read", name, json.dumps({"lossy": one})) for one in lossy[2:]]
        for other in others:
            assert other.said() == "reading"
        found: list[dict] = [{}, {}]
        holds = source.randrange(8)

        def read(n: int, seed: int, readers=readers, found=found, holds=holds) -> None:
            found[n] = sum_up(readers[n], random.Random(seed), holds)

        threads = [
            threading.Thread(target=read, args=(n, source.randrange(2**32))) for n in range(2)
        ]
        for thread in threads:
            thread.start()
        if writer is not None:
            for sequence in range(count):
                with writer.loan(LIMIT) as slot:
                    # Given back without a message. Not at the end, where a lossy reader can miss
                    # the message before it: test_channels.py has that.
                    if sequence < count - 1 and source.random() < 0.05:
                        continue
                    slot.data[:] = bytes([writer.committed % 251]) * len(slot.data)
                    slot.commit(meta=sequence)
            count = writer.committed
            writer.close()
        else:
            peer.tell()
            assert peer.said() == 0
            peer.tell()
        for thread in threads:
            thread.join(LIMIT)
        for result in found:
            assert result == {"wrong": [], "last": count - 1, "all": count}
        for n, reader in enumerate(readers):
            assert lossy[n] or when_full != "wait" or reader.missed == 0
            reader.close()
        for other in others:
            said = other.said()
            assert (said["end"], said["wrong"], said["last"]) == ("closed", [], count - 1)
            assert said["received"] + said["missed"] == count
            other.finish()
