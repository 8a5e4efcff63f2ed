"""Hands 1 MiB of host memory to another process of Python, and waits for its acknowledgement.

Usage: host_handover.py FOLDER SOCKET MESSAGES. Prints one line of JSON: {"channelUs", "queueUs"}, the
medians of one hand-over with its acknowledgement by a channel, and by a queue of multiprocessing.

The channel's message is filled in place, and read in place. The queue's is an object of bytes, which
the queue copies through a pipe. Each side writes or reads the first and the last byte alone.
"""

import json
import multiprocessing
import statistics
import sys
import time

sys.path.insert(0, sys.argv[1])
import cuda_ipc  # noqa: E402

SIZE = 1 << 20
WARM = 20


def receive_by_channel(socket, messages):
    with cuda_ipc.connect(socket, start=False) as hub:
        acknowledgements = hub.create_channel("python-acks", "uint8", 1, slots=2)
        with hub.open_channel("python-handover", start="oldest") as reader:
            for _ in range(messages):
                with reader.next(30) as message:
                    assert message.data[0] == message.data[-1]
                acknowledgements.send(b"1")
        acknowledgements.close()


def receive_by_queue(queue, acknowledgements, messages):
    for _ in range(messages):
        data = queue.get(timeout=30)
        assert data[0] == data[-1]
        acknowledgements.put(1)


def by_channel(context, socket, messages):
    with cuda_ipc.connect(socket, start=False) as hub:
        writer = hub.create_channel("python-handover", "uint8", SIZE, slots=2)
        child = context.Process(target=receive_by_channel, args=(socket, messages))
        child.start()
        acknowledgements = hub.open_channel("python-acks", start="oldest")
        writer.wait_for_readers(1, 30)

        def hand_over(number):
            with writer.loan(30) as slot:
                slot.data[0] = slot.data[-1] = number % 256
                slot.commit()
            acknowledgements.next(30).release()

        samples = timed(hand_over, messages)
        child.join(30)
    return samples


def by_queue(context, messages):
    queue, acknowledgements = context.Queue(), context.Queue()
    child = context.Process(target=receive_by_queue, args=(queue, acknowledgements, messages))
    child.start()

    def hand_over(number):
        data = bytearray(SIZE)
        data[0] = data[-1] = number % 256
        queue.put(data)
        acknowledgements.get(timeout=30)

    samples = timed(hand_over, messages)
    child.join(30)
    return samples


def timed(hand_over, messages):
    samples = []
    for number in range(messages):
        began = time.perf_counter()
        hand_over(number)
        samples.append((time.perf_counter() - began) * 1e6)
    return statistics.median(samples[min(WARM, messages // 2) :])


if __name__ == "__main__":
    spawning = multiprocessing.get_context("spawn")
    count = int(sys.argv[3])
    channel = by_channel(spawning, sys.argv[2], count)
    print(json.dumps({"channelUs": channel, "queueUs": by_queue(spawning, count)}))
