"""Plays the hostile vectors for test/process/hub/hostile-vectors.test.ts: SOCKET CALL...

It makes one call on a connection of its own for each vector, and says how the call ended, what it
got, how the next call ended, and how many descriptors are left over.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any

import cuda_ipc

LIMIT_S = 60.0


def array(hub: Any, access: str) -> str:
    with hub.open("it", access=access, timeout=LIMIT_S) as opened:
        opened.tobytes()
        return f"{opened.dtype} {','.join(map(str, opened.shape))}"


def bundle(hub: Any) -> str:
    with hub.open_bundle("it", timeout=LIMIT_S) as opened:
        names = (name.encode("utf-16-le", "surrogatepass") for name in opened)
        texts = (name.decode("utf-16-le", "replace") for name in names)
        return ",".join(text.encode().hex() for text in texts)


def make(hub: Any, call: str) -> str:
    if call == "array":
        return array(hub, "read")
    if call == "array to write":
        return array(hub, "read-write")
    if call == "bundle":
        return bundle(hub)
    if call == "timeline":
        with hub.open_timeline("it", timeout=LIMIT_S) as timeline:
            _ = timeline.value
    elif call == "reader":
        hub.open_channel("it", timeout=LIMIT_S).close()
    elif call == "writer":
        hub.resume_channel("it", timeout=LIMIT_S).close()
    elif call == "create":
        hub.create("it", "int32", 1, timeout=LIMIT_S).close()
    elif call == "list":
        hub.list(timeout=LIMIT_S)
    return ""


def outcome(hub: Any, call: str) -> tuple[str, str]:
    try:
        return "OK", make(hub, call)
    except cuda_ipc.CudaIpcError as error:
        return error.code, error.message
    except Exception as error:  # whatever it is, it is wrong
        return repr(error), ""


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> None:
    before = 0
    for number, call in enumerate(sys.argv[2:]):
        hub, following = None, ""
        try:
            hub = cuda_ipc.connect(
                sys.argv[1],
                program=f"vector {number}",
                device="host",
                start=False,
                reconnect=False,
                timeout=LIMIT_S,
            )
        except cuda_ipc.CudaIpcError as error:
            result = error.code, error.message
        except Exception as error:  # whatever it is, it is wrong
            result = repr(error), ""
        else:
            result = outcome(hub, call)
            following = outcome(hub, "list")[0]
            hub.close()
        del hub
        gc.collect()
        # The first one has loaded what all need.
        before = before or open_fds()
        # The thread of a link that ended by itself may still be closing its own.
        for _ in range(2000):
            if open_fds() <= before:
                break
            time.sleep(0.001)
        print(json.dumps([*result, following, open_fds() - before]), flush=True)


main()
