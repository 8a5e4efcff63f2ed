"""Prints a line for each message of a channel, until the channel ends.

pip install ./python
python3 examples/python/read_channel.py NAME
"""

import sys

import cuda_ipc


def main():
    with cuda_ipc.connect(program="read_channel.py") as hub:
        for message in hub.open_channel(sys.argv[1], timeout=None):
            shape = ",".join(str(length) for length in message.shape)
            meta = message.json if message.json is not None else message.meta
            what = f"{message.array.dtype}[{shape}], meta {meta!r}"
            print(f"{message.sequence}: {what}, missed {message.missed}", flush=True)


if __name__ == "__main__":
    main()
