"""Reads small messages of a channel on the host, in place, and counts them for each second.

Usage: channel_reader.py FOLDER SOCKET MESSAGES. Prints one line of JSON: {"perSecond"}, the median
of batches. One process writes and reads in turn, so the reader always finds messages. Only the
reading is timed.
"""

import json
import statistics
import sys
import time

sys.path.insert(0, sys.argv[1])
import cuda_ipc  # noqa: E402

SLOTS = 1024
messages = int(sys.argv[3])
with cuda_ipc.connect(sys.argv[2], start=False) as hub:
    writer = hub.create_channel("python-reader", "uint8", 64, slots=SLOTS)
    reader = hub.open_channel("python-reader")
    data = bytes(64)
    rates = []
    while len(rates) * SLOTS < messages:
        for _ in range(SLOTS):
            writer.send(data)
        began = time.perf_counter()
        for _ in range(SLOTS):
            message = reader.try_next()
            assert message.data[0] == 0
            message.release()
        rates.append(SLOTS / (time.perf_counter() - began))
print(json.dumps({"perSecond": statistics.median(rates)}))
