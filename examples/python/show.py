"""System S9 in Python: shows the data of a running daemon (`node examples/daemon.ts serve`),
changes its rate, and shows the data again.

    pip install ./python
    python3 examples/python/show.py [RATE]

prints, for example:

    float32[1024], rate 1.0: 311.0 311.0 311.0 ...
    set the rate to 2.5
    float32[1024], rate 2.5: 332.5 332.5 332.5 ...
"""

import struct
import sys
import time

import cuda_ipc

LIMIT_S = 30


def show(field, rate):
    first = " ".join(str(value) for value in field.tolist()[:3])
    shape = ",".join(str(length) for length in field.shape)
    print(f"{field.dtype}[{shape}], rate {rate.tolist()[0]}: {first} ...", flush=True)


def main():
    wanted = float(sys.argv[1]) if len(sys.argv) > 1 else 2.5
    with cuda_ipc.connect(program="show.py") as hub:
        field = hub.open("daemon-field", timeout=LIMIT_S)
        rate = hub.open("daemon-rate", access="read-write", timeout=LIMIT_S)
        show(field, rate)
        rate.write(struct.pack("<f", wanted))
        print(f"set the rate to {wanted}", flush=True)
        time.sleep(0.2)
        show(field, rate)


if __name__ == "__main__":
    main()
