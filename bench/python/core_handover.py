"""Hands buffers of cuda.core to another process by a multiprocessing queue, which acknowledges each.

Usage: core_handover.py MESSAGES DEVICE BYTES. Prints one line of JSON, like the programs in
bench/c. Exits with 3 if cuda.core or its pools that can be shared are missing. With 0 messages it
only checks for that. Buffers are allocated once, because only the hand-over is measured.
"""

import json
import multiprocessing
import sys
import time

SLOTS = 8
LIMIT_S = 60


def core_of():
    try:
        import cuda.core as core

        core.DeviceMemoryResourceOptions
    except (ImportError, AttributeError):
        import cuda.core.experimental as core
    return core


def consume(ordinal, messages, buffers, acknowledgements):
    core = core_of()
    device = core.Device(ordinal)
    device.set_current()
    stream = device.create_stream()
    own = None
    acknowledgements.put(-1)
    for number in range(messages):
        buffer = buffers.get(timeout=LIMIT_S)
        if own is None:
            own = device.allocate(buffer.size, stream=stream)
        buffer.copy_to(own, stream=stream)
        stream.sync()
        buffer.close()
        acknowledgements.put(number)
    acknowledgements.put(own.size)


def main():
    messages, device_name = int(sys.argv[1]), sys.argv[2]
    ordinal = int(device_name.partition(":")[2] or 0)
    try:
        core = core_of()
        device = core.Device(ordinal)
        device.set_current()
        byte_length = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 20
        options = core.DeviceMemoryResourceOptions(max_size=2 * SLOTS * byte_length, ipc_enabled=True)
        resource = core.DeviceMemoryResource(device, options=options)
    except Exception as missing:
        print(f"cuda.core cannot be used: {missing}", file=sys.stderr)
        return 3
    if messages == 0:
        return 0
    warm_up = messages // 10 + 1
    context = multiprocessing.get_context("spawn")
    buffers, acknowledgements = context.Queue(), context.Queue()
    arguments = (ordinal, warm_up + messages, buffers, acknowledgements)
    consumer = context.Process(target=consume, args=arguments, daemon=True)
    consumer.start()
    stream = device.create_stream()
    slots = [resource.allocate(byte_length, stream=stream) for _ in range(SLOTS)]
    stream.sync()
    if acknowledgements.get(timeout=LIMIT_S) != -1:
        raise RuntimeError("the consumer did not begin")
    times_us = []
    for number in range(warm_up + messages):
        start = time.perf_counter()
        buffers.put(slots[number % SLOTS])
        if acknowledgements.get(timeout=LIMIT_S) != number:
            raise RuntimeError("another message is acknowledged")
        if number >= warm_up:
            times_us.append((time.perf_counter() - start) * 1e6)
    if acknowledgements.get(timeout=LIMIT_S) != byte_length:
        raise RuntimeError("the buffer had another size")
    consumer.join(LIMIT_S)
    times_us.sort()
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": "core-handover", "iterations": count, "us": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
