"""Hands arrays to another process of Python over a channel, which acknowledges each over another.

Usage: own_handover.py MESSAGES DEVICE BYTES. Prints one line of JSON, like the programs in bench/c.
Does the same work as torch_handover.py with PyTorch, if it is installed: the sender fills the
array, and the receiver copies it. On the host without PyTorch it uses NumPy.
"""

import json
import multiprocessing
import os
import sys
import time

import cuda_ipc

LIMIT_S = 60


def views(device):
    """Functions that view an array, make one of the receiver, and wait for the GPU."""
    try:
        import torch
    except ImportError:
        import numpy

        return lambda array: array.numpy(), lambda size: numpy.empty(size, numpy.uint8), numpy.copyto
    # Threads of a pool that wait for each other would be measured, too.
    torch.set_num_threads(1)
    where = "cpu" if device == "host" else device
    if where != "cpu":
        torch.cuda.set_device(where)
    empty = lambda size: torch.empty(size, dtype=torch.uint8, device=where)  # noqa: E731
    return cuda_ipc.torch.view, empty, lambda to, source: to.copy_(source)


def names():
    return f"handover-{os.getppid()}", f"handover-back-{os.getppid()}"


def consume(device, messages, byte_length):
    view, empty, copy = views(device)
    forward, back = names()
    with cuda_ipc.connect() as hub:
        acknowledgements = hub.create_channel(back, "int64", 1)
        reader = hub.open_channel(forward, start="oldest", timeout=LIMIT_S)
        own = empty(byte_length)
        acknowledgements.send((-1).to_bytes(8, "little", signed=True))
        for number in range(messages):
            message = reader.next(LIMIT_S)
            copy(own, view(message.array))
            # It waits for the copy.
            message.release()
            acknowledgements.send(number.to_bytes(8, "little"))
        acknowledgements.send(int(own[0]).to_bytes(8, "little"))
        if reader.next(LIMIT_S) is not None:
            raise RuntimeError("there was one message too many")


def main():
    messages, device, byte_length = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    warm_up = messages // 10 + 1
    context = multiprocessing.get_context("spawn")
    arguments = (device, warm_up + messages, byte_length)
    consumer = context.Process(target=consume, args=arguments, daemon=True)
    consumer.start()
    view, _, _ = views(device)
    forward, back = f"handover-{os.getpid()}", f"handover-back-{os.getpid()}"
    times_us = []
    with cuda_ipc.connect() as hub:
        writer = hub.create_channel(forward, "uint8", byte_length, device=device)
        acknowledgements = hub.open_channel(back, start="oldest", timeout=LIMIT_S)

        def expect(number):
            with acknowledgements.next(LIMIT_S) as message:
                found = int.from_bytes(message.array.tobytes(), "little", signed=True)
            if found != number:
                raise RuntimeError(f"message {found} is acknowledged, wanted {number}")

        expect(-1)
        for number in range(warm_up + messages):
            start = time.perf_counter()
            slot = writer.loan(LIMIT_S)
            view(slot.array)[:] = number % 256
            slot.commit()
            expect(number)
            if number >= warm_up:
                times_us.append((time.perf_counter() - start) * 1e6)
        expect((warm_up + messages - 1) % 256)
        writer.close()
        consumer.join(LIMIT_S)
    if consumer.exitcode != 0:
        raise RuntimeError(f"the consumer ended with {consumer.exitcode}")
    times_us.sort()
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": "own-handover", "iterations": count, "us": figures}))


if __name__ == "__main__":
    main()
