"""Opens and closes an array by its name. Usage: open_arrays.py NAME COUNT

Prints one line of JSON, like the programs in bench/c. The first open of the process is not counted.
"""

import json
import sys
import time

import cuda_ipc


def main():
    name, count = sys.argv[1], int(sys.argv[2])
    times_us = []
    with cuda_ipc.connect() as hub:
        for number in range(count + 1):
            start = time.perf_counter()
            array = hub.open(name)
            if number > 0:
                times_us.append((time.perf_counter() - start) * 1e6)
            array.close()
    times_us.sort()
    figures = {"p50": times_us[count // 2], "p99": times_us[count * 99 // 100], "mean": sum(times_us) / count}
    print(json.dumps({"name": "open-array", "iterations": count, "us": figures}))


if __name__ == "__main__":
    main()
