/**
 * Each system call of a client fails in turn, with each errno that it can set. The error names the
 * call, nothing is left in the client or on the hub, and the next operation works. The hub is
 * another process, so all counted calls are the client's.
 */
import assert from "node:assert/strict";
import { open } from "node:fs/promises";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../src/base/errors.js";
import type { Hub } from "../../src/client/hub.js";
import { readFileInto } from "../../src/gpu/transfer/file-transfer.js";
import { ClientSite } from "../support/client-site.js";
import { checkLeaks } from "../support/leak-check.js";
import { type Round, sweepSystemCalls } from "../support/system-call-sweep.js";

const SHAPE = { dtype: "int32", shape: [3] } as const;
const FILE_BYTES = 4096;
const VALUES = Int32Array.of(1, 2, 3);

interface Operation {
  readonly name: string;
  /** Calls that must be among those that failed: the test is about them. */
  readonly calls: readonly string[];
  /** @param other a client whose calls do not fail */
  run(hub: Hub, round: Round, other: Hub): Promise<void>;
}

const operations: readonly Operation[] = [
  {
    name: "create",
    calls: ["memfd_create", "ftruncate", "fcntl", "mmap", "sendmsg", "recvmsg"],
    async run(hub, { failing }) {
      using array = await failing(() => hub.create("frame", SHAPE));
      await array.write(VALUES);
    },
  },
  {
    name: "create with preallocate",
    calls: ["fallocate"],
    async run(hub, { failing }) {
      using array = await failing(() => hub.create("frame", { ...SHAPE, preallocate: true }));
      await array.write(VALUES);
    },
  },
  {
    name: "create and forget, with close",
    calls: ["munmap", "close", "sendmsg"],
    async run(hub, { failing }) {
      const array = await hub.create("frame", SHAPE);
      await failing(() => array.close());
    },
  },
  {
    name: "publish",
    calls: ["sendmsg"],
    async run(hub, { failing }, other) {
      using array = await hub.create("frame", SHAPE);
      await failing(() => array.publish());
      using opened = await other.open("frame", { wait: false });
      assert.equal(opened.object, array.object);
    },
  },
  {
    name: "open",
    calls: ["sendmsg", "recvmsg", "fstatSync", "fcntl", "mmap", "close"],
    async run(hub, { failing }, other) {
      using array = await other.create("frame", SHAPE);
      await array.write(VALUES);
      await array.publish();
      using opened = await failing(() => hub.open("frame"));
      assert.deepEqual(await opened.read(), VALUES);
    },
  },
  {
    // None of its calls can fail, because the memory is already mapped.
    name: "read and write",
    calls: [],
    async run(hub, { failing }) {
      using array = await hub.create("frame", { dtype: "int32", shape: [3, 100_000] });
      await array.write(new Int32Array(300_000).fill(7));
      const values = await failing(async () => {
        await array.slice(0).write(new Int32Array(100_000).fill(8));
        // The array is not contiguous, so it uses staging memory.
        await array.slice({}, { step: 2 }).write(new Int32Array(150_000).fill(9));
        return array.read();
      });
      assert.deepEqual([values[0], values[1], values[299_999]], [9, 8, 7]);
    },
  },
  {
    name: "reading a file into an array",
    calls: ["open", "sendfile", "close"],
    async run(hub, { failing }) {
      using array = await hub.create("frame", { dtype: "uint8", shape: [FILE_BYTES] });
      const file = await open(process.execPath);
      try {
        const section = { file, fileName: "node", byteOffset: 0, byteLength: FILE_BYTES };
        await failing(() => readFileInto(array.buffer, 0, section));
        const content = Buffer.alloc(FILE_BYTES);
        await file.read(content, 0, FILE_BYTES, 0);
        assert.ok(content.equals((await array.read()) as Uint8Array));
      } finally {
        await file.close();
      }
    },
  },
  {
    name: "the close of an opened array",
    calls: ["munmap", "sendmsg"],
    async run(hub, { failing }, other) {
      using array = await other.create("frame", SHAPE);
      await array.publish();
      const opened = await hub.open("frame");
      await failing(() => opened.close());
    },
  },
  {
    name: "createTimeline",
    calls: ["memfd_create", "mmap", "fcntl", "sendmsg"],
    async run(hub, { failing }, other) {
      using timeline = await failing(() => hub.createTimeline("steps"));
      using opened = await other.openTimeline("steps");
      timeline.signal(3n);
      await opened.wait(3n);
    },
  },
  {
    name: "openTimeline",
    calls: ["fstatSync", "fcntl", "mmap", "sendmsg"],
    async run(hub, { failing }, other) {
      using timeline = await other.createTimeline("steps");
      using opened = await failing(() => hub.openTimeline("steps"));
      timeline.signal(3n);
      await opened.wait(3n);
    },
  },
  {
    name: "the close of timelines",
    calls: ["munmap", "close", "sendmsg"],
    async run(hub, { failing }, other) {
      const timeline = await hub.createTimeline("steps");
      using theirs = await other.createTimeline("others");
      const opened = await hub.openTimeline("others");
      await failing(() => {
        try {
          timeline.close();
        } finally {
          opened.close();
        }
      });
      theirs.signal(1n);
    },
  },
  {
    name: "createBundle",
    calls: ["memfd_create", "writeSync", "fcntl", "sendmsg"],
    async run(hub, { failing }) {
      using bundle = await failing(() => hub.createBundle("model", { a: SHAPE, b: SHAPE }));
      await bundle.array("a").write(VALUES);
    },
  },
  {
    name: "openBundle",
    calls: ["fstatSync", "readSync", "mmap"],
    async run(hub, { failing }, other) {
      using bundle = await other.createBundle("model", { a: SHAPE, b: SHAPE });
      await bundle.publish();
      using opened = await failing(() => hub.openBundle("model"));
      assert.deepEqual(opened.names(), ["a", "b"]);
    },
  },
  {
    name: "an open that is given up",
    calls: ["sendmsg", "recvmsg"],
    async run(hub, { failing }) {
      await failing(async () => {
        await assert.rejects(
          hub.open("nothing", { timeoutMs: 1 }),
          (error) => error instanceof CudaIpcError,
        );
        await hub.status();
      });
    },
  },
  {
    name: "list, inspect, status and remove",
    calls: ["sendmsg", "recvmsg"],
    async run(hub, { failing }, other) {
      using array = await other.create("frame", SHAPE);
      await failing(async () => {
        await hub.list();
        await hub.inspect("frame");
        await hub.status();
        await hub.remove("frame");
      });
      assert.deepEqual(await array.read(), new Int32Array(3));
    },
  },
];

describe("a system call that fails in a client", () => {
  const site = new ClientSite();
  checkLeaks(() => site.close());

  async function sweep(
    round: (round: Round) => Promise<void>,
    calls: readonly string[],
  ): Promise<void> {
    await site.prepare();
    const failed = await sweepSystemCalls(round, { check: (result) => site.check(result) });
    for (const call of calls)
      assert.ok(failed.has(call), `${call} is not among ${[...failed].join(", ")}`);
  }

  it("fails connect, which works afterwards", () =>
    sweep(
      async ({ failing }) => {
        const hub = await failing(() => site.join());
        await hub.close();
      },
      ["socket", "connect", "sendmsg", "recvmsg", "lstatSync"],
    ));

  it("fails the close of a hub, which is still closed", () =>
    sweep(
      async ({ failing }) => {
        const hub = await site.join();
        const array = await hub.create("frame", SHAPE);
        await array.write(VALUES);
        await hub.createTimeline("steps");
        await failing(() => hub.close());
      },
      ["munmap", "close", "sendmsg", "recvmsg"],
    ));

  for (const { name, calls, run } of operations) {
    it(`fails ${name}, and the next operation works`, () =>
      sweep((round) => site.run(run, round), calls));
  }
});
