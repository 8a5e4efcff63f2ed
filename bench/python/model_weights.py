"""Loads a model's weights as tensors, from its file and by its name on the hub, in turns.

Usage: model_weights.py FILE NAME ROUNDS DEVICE. Prints two lines of JSON, like the programs in
bench/c: "weights-file" and "weights-name". Exits with 3 if PyTorch or safetensors is missing.

The process has imported everything and made its CUDA context before it measures. Each tensor is
compared once. What was loaded is dropped before the next round.
"""

import gc
import json
import sys
import time


def report(name, times):
    times_us = sorted(1e6 * one for one in times)
    count = len(times_us)
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": name, "iterations": count, "us": figures}))


def main():
    path, name, rounds, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    try:
        import safetensors.torch
        import torch
    except ImportError as missing:
        print(missing, file=sys.stderr)
        return 3
    import cuda_ipc

    where = "cpu" if device == "host" else device
    if where != "cpu" and not torch.cuda.is_available():
        print("PyTorch has no CUDA here", file=sys.stderr)
        return 3

    def synchronize():
        if where != "cpu":
            torch.cuda.synchronize()

    def timed(load):
        gc.collect()
        synchronize()
        start = time.perf_counter()
        tensors = load()
        synchronize()
        return time.perf_counter() - start, tensors

    torch.ones(1, device=where)
    from_file, by_name = [], []
    for number in range(rounds + 1):
        file_s, loaded = timed(lambda: safetensors.torch.load_file(path, device=where))
        name_s, views = timed(lambda: cuda_ipc.torch.load_file(name))
        if number == 0:
            if loaded.keys() != views.keys() or not all(torch.equal(loaded[key], views[key]) for key in loaded):
                raise RuntimeError("the tensors differ")
        else:
            from_file.append(file_s)
            by_name.append(name_s)
        del loaded, views
        gc.collect()
        if where != "cpu":
            # Each round takes new memory, as a worker that starts does.
            torch.cuda.empty_cache()
    report("weights-file", from_file)
    report("weights-name", by_name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
