"""A worker that answers requests of images of 6 MB, without work of its own.

Usage: service_worker.py FOLDER SOCKET NAME. Prints a line of JSON once it serves: {"serving"}. Ends
with its standard input.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])
import cuda_ipc  # noqa: E402

IMAGE = ("uint8", (1080, 1920, 3))


def handler(request, reply):
    # Where the work would be: the image is here, in place, and so is its result.
    assert request.data.nbytes == reply.loan().data.nbytes


with cuda_ipc.connect(sys.argv[2], start=False) as hub:
    with hub.serve(sys.argv[3], handler, request=IMAGE, reply=IMAGE):
        print(json.dumps({"serving": True}), flush=True)
        sys.stdin.read()
