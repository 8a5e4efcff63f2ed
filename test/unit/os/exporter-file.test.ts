import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { describe, it } from "node:test";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { createExporterFile, openExporterFile } from "../../../src/os/exporter-file.js";
import { isInMemory } from "../../../src/os/foreign-fd.js";
import { openFile } from "../../../src/os/open-file.js";
import { identityOf } from "../../../src/os/process-identity.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

const O_PATH = 0o10000000;
const skip =
  spawnSync("unshare", ["--mount", "true"]).status !== 0 && "a mount of its own is refused";

describe("openExporterFile", () => {
  checkLeaks();

  it("opens nothing that only has the name of a memory file", { skip }, async () => {
    using folder = new TestFolder();
    mkdirSync(folder.file("mount"));
    // A file of a mount that was taken away has a path as if the root of that mount were ours.
    const steps = [
      'mount -t tmpfs none "$0"',
      'exec 7<>"$0/memfd:cuda-ipc-memory-5"',
      'rm "$0/memfd:cuda-ipc-memory-5"',
      'umount --lazy "$0"',
      "echo ready",
      "exec cat",
    ].join(" && ");
    const exporter = spawn("unshare", ["--mount", "sh", "-c", steps, folder.file("mount")], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    try {
      await once(exporter.stdout, "data");
      const identity = identityOf(exporter.pid as number);
      assert.ok(identity);
      const flags: number[] = [];
      const undo = interceptLibc((call, values) => {
        if (call === "open") flags.push(Number(values[1]));
        return undefined;
      });
      try {
        const file = { ...identity, kind: "memory", fd: 7, fileNumber: 5, byteLength: 0 } as const;
        assert.throws(() => openExporterFile(file, "read", "memory of the host device"), {
          code: "STALE_HANDLE",
        });
      } finally {
        undo();
      }
      assert.deepEqual(
        flags.map((flag) => (flag & O_PATH) !== 0),
        [true],
        "nothing was opened",
      );
    } finally {
      exporter.stdin.end();
      await once(exporter, "close");
    }
  });
});

describe("isInMemory", () => {
  checkLeaks();

  it("tells a memory file from others, opened or not", () => {
    using folder = new TestFolder();
    using memory = createExporterFile("memory", 1, 4096);
    using unopened = openFile(`/proc/self/fd/${memory.number}`, "path");
    using other = openFile(folder.file("other"), "own");
    using shared = openFile("/dev/shm", "path");
    assert.deepEqual([memory, unopened, other, shared].map(isInMemory), [true, true, false, false]);
  });
});
