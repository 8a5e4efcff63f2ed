"""Times `import cuda_ipc`, or with the argument "connect" all that a client needs, in a new process.

Usage: import_time.py FOLDER [connect]. Prints one line of JSON: {"ms"}.
"""

import json
import sys
import time

sys.path.insert(0, sys.argv[1])
began = time.perf_counter()
import cuda_ipc  # noqa: E402

if sys.argv[2:] == ["connect"]:
    _ = cuda_ipc.connect
print(json.dumps({"ms": (time.perf_counter() - began) * 1000}))
