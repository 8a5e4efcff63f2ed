"""Hands CUDA tensors to another process by a torch.multiprocessing queue.

Usage: torch_handover.py MESSAGES [DEVICE [BYTES [DEPTHS]]]. BYTES is 64 KiB by default. DEPTHS and
what is printed are as in own_handover.py. Exits with 3 if PyTorch or its CUDA support is missing.
With 0 messages, it only checks for that.

The receiver acknowledges each tensor. The tensors are allocated once, because only the hand-over is measured.
"""

import json
import sys
import time

SLOTS_MIN = 8
TENSOR_BYTES = 64 * 1024


def consume(device, messages, byte_length, tensors, acknowledgements):
    import torch

    torch.cuda.set_device(device)
    own = torch.empty(byte_length, dtype=torch.uint8, device=device)
    acknowledgements.put(-1)
    for number in range(messages):
        tensor = tensors.get()
        own.copy_(tensor)
        torch.cuda.synchronize()
        del tensor
        acknowledgements.put(number)
    # Read only at the end, because it takes longer than the hand-over.
    acknowledgements.put(int(own[0]))


def expect(acknowledgements, number):
    found = acknowledgements.get(timeout=20)
    if found != number:
        raise RuntimeError(f"message {found} is acknowledged, wanted {number}")


def report(name, times_us):
    times_us.sort()
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": name, "iterations": count, "us": figures}))


def main():
    messages, device = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cuda:0"
    try:
        import torch
        import torch.multiprocessing
    except ImportError:
        print("PyTorch is not installed", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("PyTorch has no CUDA here", file=sys.stderr)
        return 3
    if messages == 0:
        return 0
    byte_length = int(sys.argv[3]) if len(sys.argv) > 3 else TENSOR_BYTES
    depths = [int(depth) for depth in (sys.argv[4] if len(sys.argv) > 4 else "1").split(",")]
    # A depth has a warm-up and its messages: both in whole samples.
    plans = [(depth, (messages // 10 // depth + 1) * depth, (messages // depth + 1) * depth) for depth in depths]
    count = sum(warm_up + timed for _, warm_up, timed in plans)
    context = torch.multiprocessing.get_context("spawn")
    tensors, acknowledgements = context.Queue(), context.Queue()
    arguments = (device, count, byte_length, tensors, acknowledgements)
    consumer = context.Process(target=consume, args=arguments, daemon=True)
    consumer.start()
    torch.cuda.set_device(device)
    slots = [torch.empty(byte_length, dtype=torch.uint8, device=device) for _ in range(max(SLOTS_MIN, *depths))]
    acknowledgements.get(timeout=60)
    first = 0
    for depth, warm_up, timed in plans:
        times_us = []
        end = first + warm_up + timed
        start = time.perf_counter()
        for number in range(first, end):
            slot = slots[number % len(slots)]
            # The consumer's stream waits for this, because PyTorch sends an event with the tensor.
            slot.fill_(number % 256)
            tensors.put(slot)
            if number - first + 1 >= depth:
                expect(acknowledgements, number + 1 - depth)
            if (number - first + 1) % depth == 0:
                now = time.perf_counter()
                if number - first >= warm_up:
                    times_us.append((now - start) * 1e6 / depth)
                start = now
        for number in range(end - depth + 1, end):
            expect(acknowledgements, number)
        first = end
        report(f"torch-handover-{depth}", times_us)
    if acknowledgements.get(timeout=20) != (count - 1) % 256:
        raise RuntimeError("the last message had other bytes")
    consumer.join(timeout=20)
    return 0


if __name__ == "__main__":
    sys.exit(main())
