"""A worker of the model server: views the weights in shared memory, and answers requests.

worker.py SERVICE MODEL DEVICE. Prints a line of JSON when it is ready, and ends with its input.
Computes with PyTorch, or on the host with NumPy if PyTorch is missing.
"""

import json
import os
import sys
import time

import cuda_ipc

INPUTS, HIDDEN, OUTPUTS = 784, 256, 10
LIMIT_S = 30


def with_torch(torch, name, hub):
    with torch.device("meta"):  # no memory of its own
        network = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, OUTPUTS)
        )
    began = time.perf_counter()
    cuda_ipc.torch.load_model(network, name, hub=hub, wait=True, timeout=LIMIT_S)
    took_s = time.perf_counter() - began

    def compute(request, reply):
        with torch.inference_mode():
            scores = network(cuda_ipc.torch.view(request.array))
            cuda_ipc.torch.view(reply.array).copy_(scores)

    return compute, took_s


def with_numpy(name, hub):
    import numpy

    began = time.perf_counter()
    weights = cuda_ipc.numpy.load_file(name, hub=hub, wait=True, timeout=LIMIT_S)
    took_s = time.perf_counter() - began

    def compute(request, reply):
        hidden = weights["0.weight"] @ request.numpy() + weights["0.bias"]
        scores = weights["2.weight"] @ numpy.maximum(hidden, 0) + weights["2.bias"]
        reply.numpy()[:] = scores

    return compute, took_s


def main():
    service_name, model, device = sys.argv[1:4]
    try:
        import torch

        if device != "host":
            torch.ones(1, device=device)  # makes the CUDA context
        framework = "PyTorch"
    except ImportError:
        torch, framework = None, "NumPy"
    with cuda_ipc.connect(program="model worker") as hub:
        compute, took_s = with_numpy(model, hub) if torch is None else with_torch(torch, model, hub)

        def handler(request, reply):
            compute(request, reply.loan())
            return {"meta": {"worker": os.getpid()}}

        sizes = {"request": ("float32", INPUTS), "reply": ("float32", OUTPUTS)}
        with hub.serve(service_name, handler, **sizes, depth=4, device=device):
            print(json.dumps({"framework": framework, "weightsMs": 1000 * took_s}), flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
