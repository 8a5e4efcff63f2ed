"""Hands buffers of cuda.core to another process by a multiprocessing queue, which acknowledges each.

Usage: core_handover.py MESSAGES DEVICE BYTES [DEPTHS]. DEPTHS and what is printed are as in
own_handover.py. The sender fills each buffer by a copy on its GPU, and waits for that, because
nothing else orders the two processes. Exits with 3 if cuda.core or its pools that can be shared are missing. With 0 messages it
only checks for that. Buffers are allocated once, because only the hand-over is measured.
"""

import json
import multiprocessing
import sys
import time

SLOTS_MIN = 8
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


def report(name, times_us):
    times_us.sort()
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": name, "iterations": count, "us": figures}))


def main():
    messages, device_name = int(sys.argv[1]), sys.argv[2]
    ordinal = int(device_name.partition(":")[2] or 0)
    try:
        core = core_of()
        device = core.Device(ordinal)
        device.set_current()
        byte_length = int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 20
        depths = [int(depth) for depth in (sys.argv[4] if len(sys.argv) > 4 else "1").split(",")]
        slot_count = max(SLOTS_MIN, *depths)
        options = core.DeviceMemoryResourceOptions(max_size=2 * (slot_count + 1) * byte_length, ipc_enabled=True)
        resource = core.DeviceMemoryResource(device, options=options)
    except Exception as missing:
        print(f"cuda.core cannot be used: {missing}", file=sys.stderr)
        return 3
    if messages == 0:
        return 0
    # A depth has a warm-up and its messages: both in whole samples.
    plans = [(depth, (messages // 10 // depth + 1) * depth, (messages // depth + 1) * depth) for depth in depths]
    count = sum(warm_up + timed for _, warm_up, timed in plans)
    context = multiprocessing.get_context("spawn")
    buffers, acknowledgements = context.Queue(), context.Queue()
    arguments = (ordinal, count, buffers, acknowledgements)
    consumer = context.Process(target=consume, args=arguments, daemon=True)
    consumer.start()
    stream = device.create_stream()
    slots = [resource.allocate(byte_length, stream=stream) for _ in range(slot_count)]
    source = resource.allocate(byte_length, stream=stream)
    stream.sync()
    if acknowledgements.get(timeout=LIMIT_S) != -1:
        raise RuntimeError("the consumer did not begin")

    def expect(number):
        if acknowledgements.get(timeout=LIMIT_S) != number:
            raise RuntimeError("another message is acknowledged")

    first = 0
    for depth, warm_up, timed in plans:
        times_us = []
        end = first + warm_up + timed
        start = time.perf_counter()
        for number in range(first, end):
            slot = slots[number % slot_count]
            source.copy_to(slot, stream=stream)
            stream.sync()
            buffers.put(slot)
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
        report(f"core-handover-{depth}", times_us)
    if acknowledgements.get(timeout=LIMIT_S) != byte_length:
        raise RuntimeError("the buffer had another size")
    consumer.join(LIMIT_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
