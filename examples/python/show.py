"""System S9 in Python: shows the data of a running daemon (`node examples/daemon.ts serve`), changes
its rate, and shows the data again.

    python3 examples/python/show.py [RATE]

prints, for example:

    float32[1024], rate 1.0: 311.0 311.0 311.0 ...
    set the rate to 2.5
    float32[1024], rate 2.5: 332.5 332.5 332.5 ...
"""
import struct
import sys
import time

import cuda_ipc_client

LIMIT_S = 30


def show(field, rate):
    values = field.array.values()
    first = " ".join(str(value) for value in values[:3])
    shape = ",".join(str(length) for length in field.array.shape)
    print(f"{field.array.dtype}[{shape}], rate {rate.array.values()[0]}: {first} ...", flush=True)


def main():
    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 2.5
    with cuda_ipc_client.connect(program="show.py") as hub:
        with hub.open("daemon-field", wait=True, timeout=LIMIT_S) as field:
            with hub.open("daemon-rate", access="read-write", wait=True, timeout=LIMIT_S) as rate:
                show(field, rate)
                rate.array.write(struct.pack("<f", wanted))
                print(f"set the rate to {wanted}", flush=True)
                time.sleep(0.2)
                show(field, rate)


if __name__ == "__main__":
    main()
