"""Hands arrays to another process of Python over a channel, which acknowledges each by a timeline.

Usage: own_handover.py MESSAGES DEVICE BYTES [DEPTHS [SPIN_US]]. DEPTHS is "1" by default, or many
as in "1,64". Prints a line of JSON for each, like the programs in bench/c. Does the same work as
torch_handover.py with PyTorch, if it is installed: the sender fills the array, and the receiver
copies it. On the host without PyTorch it uses NumPy.

On a GPU both sides work in the order of their streams, and neither CPU waits for its own GPU. The
stream that copies also signals the timeline. So the sender has the acknowledgement when the
receiver's copy is done, not when it is enqueued. A message and its release are ordered by the
streams, too. The last message's content is compared at the end.

At most DEPTH messages are in flight. With 1, each is acknowledged before the next, and a sample is
one message. With more, a sample is the mean of DEPTH messages.

SPIN_US is how long a wait looks again before it sleeps. It is 1000 on a GPU, where the answer
takes longer than the 20 of the package, and that default on the host.
"""

import json
import multiprocessing
import os
import sys
import time

import cuda_ipc

LIMIT_S = 60
SLOTS_MIN = 8
#: The value of the timeline at which the receiver is ready. Each message adds one.
READY = 1
GPU_SPIN_US, HOST_SPIN_US = 1000, 20


def framework(device):
    """Functions that fill an array of a channel, make one of the receiver, and copy; the stream."""
    try:
        import torch
    except ImportError:
        import numpy

        empty = lambda size: numpy.empty(size, numpy.uint8)  # noqa: E731
        return lambda array, value: array.numpy().fill(value), empty, lambda to, array: numpy.copyto(to, array.numpy()), None
    # Threads of a pool that wait for each other would be measured, too.
    torch.set_num_threads(1)
    where = "cpu" if device == "host" else device
    stream = None
    if where != "cpu":
        torch.cuda.set_device(where)
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
    view = cuda_ipc.torch.view
    empty = lambda size: torch.empty(size, dtype=torch.uint8, device=where)  # noqa: E731
    return lambda array, value: view(array).fill_(value), empty, lambda to, array: to.copy_(view(array)), stream


def names(parent):
    return f"handover-{parent}", f"handover-back-{parent}"


def consume(device, messages, byte_length, spin):
    _, empty, copy, stream = framework(device)
    forward, back = names(os.getppid())
    with cuda_ipc.connect() as hub:
        acknowledged = hub.create_timeline(back)
        if stream is not None:
            acknowledged.prepare(stream)
        reader = hub.open_channel(forward, start="oldest", stream=stream, spin=spin, timeout=LIMIT_S)
        own = empty(byte_length)
        acknowledged.signal(READY)
        for number in range(messages):
            message = reader.next(LIMIT_S)
            copy(own, message.array)
            # Once the stream has copied. The slot goes back then, too.
            acknowledged.signal(READY + number + 1, stream=stream)
            message.release()
        if int(own[0]) != (messages - 1) % 256:
            raise RuntimeError("the last message had another content")
        if reader.next(LIMIT_S) is not None:
            raise RuntimeError("there was one message too many")


def report(name, times_us):
    times_us.sort()
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": name, "iterations": count, "us": figures}))


def main():
    messages, device, byte_length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    depths = [int(depth) for depth in (sys.argv[4] if len(sys.argv) > 4 else "1").split(",")]
    spin = float(sys.argv[5] if len(sys.argv) > 5 else HOST_SPIN_US if device == "host" else GPU_SPIN_US) / 1e6
    # A depth has a warm-up and its messages: both in whole samples.
    plans = [(depth, (messages // 10 // depth + 1) * depth, (messages // depth + 1) * depth) for depth in depths]
    count = sum(warm_up + timed for _, warm_up, timed in plans)
    slots = max(SLOTS_MIN, *depths)
    context = multiprocessing.get_context("spawn")
    arguments = (device, count, byte_length, spin)
    consumer = context.Process(target=consume, args=arguments, daemon=True)
    consumer.start()
    fill, _, _, stream = framework(device)
    forward, back = names(os.getpid())
    with cuda_ipc.connect() as hub:
        writer = hub.create_channel(forward, "uint8", byte_length, slots=slots, device=device)
        acknowledged = hub.open_timeline(back, timeout=LIMIT_S)

        def expect(number):
            acknowledged.wait(READY + number + 1, LIMIT_S, spin=spin)

        expect(-1)
        first = 0
        for depth, warm_up, timed in plans:
            times_us = []
            end = first + warm_up + timed
            start = time.perf_counter()
            for number in range(first, end):
                slot = writer.loan(LIMIT_S, stream=stream)
                fill(slot.array, number % 256)
                slot.commit()
                if number - first + 1 >= depth:
                    expect(number + 1 - depth)
                if (number - first + 1) % depth == 0:
                    now = time.perf_counter()
                    if number - first >= warm_up:
                        times_us.append((now - start) * 1e6 / depth)
                    start = now
            for number in range(end - depth + 1, end):
                expect(number)
            first = end
            report(f"own-handover-{depth}", times_us)
        writer.close()
        consumer.join(LIMIT_S)
    if consumer.exitcode != 0:
        raise RuntimeError(f"the consumer ended with {consumer.exitcode}")


if __name__ == "__main__":
    main()
