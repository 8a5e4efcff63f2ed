"""Hands a CUDA tensor of 64 KiB to another process by a torch.multiprocessing queue, for each message, and waits for its acknowledgement.

torch_handover.py MESSAGES [DEVICE]: prints one line of JSON as the programs in bench/c do; ends with 3 where there is no PyTorch with CUDA.
With 0 messages it does nothing more than to look for that.
The tensors are a ring of SLOTS that are made once, so that no time goes into allocating: what is measured is the hand-over.
"""

import json
import sys
import time

SLOTS = 8
TENSOR_BYTES = 64 * 1024


def consume(device, messages, tensors, acknowledgements):
    import torch

    torch.cuda.set_device(device)
    own = torch.empty(TENSOR_BYTES, dtype=torch.uint8, device=device)
    acknowledgements.put(-1)
    for number in range(messages):
        tensor = tensors.get()
        own.copy_(tensor)
        torch.cuda.synchronize()
        del tensor
        acknowledgements.put(number)
    # Asked for at the end alone: it would take longer than the hand-over.
    acknowledgements.put(int(own[0]))


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
    warm_up = messages // 10 + 1
    context = torch.multiprocessing.get_context("spawn")
    tensors, acknowledgements = context.Queue(), context.Queue()
    consumer = context.Process(target=consume, args=(device, warm_up + messages, tensors, acknowledgements), daemon=True)
    consumer.start()
    torch.cuda.set_device(device)
    slots = [torch.empty(TENSOR_BYTES, dtype=torch.uint8, device=device) for _ in range(SLOTS)]
    acknowledgements.get(timeout=60)
    times_us = []
    for number in range(warm_up + messages):
        start = time.perf_counter()
        slot = slots[number % SLOTS]
        # The consumer's stream waits for this: PyTorch sends an event along.
        slot.fill_(number % 256)
        tensors.put(slot)
        if acknowledgements.get(timeout=20) != number:
            raise RuntimeError("an acknowledgement of another message")
        if number >= warm_up:
            times_us.append((time.perf_counter() - start) * 1e6)
    if acknowledgements.get(timeout=20) != (warm_up + messages - 1) % 256:
        raise RuntimeError("the last message had other bytes")
    consumer.join(timeout=20)
    report("torch-handover", times_us)
    return 0


if __name__ == "__main__":
    sys.exit(main())
