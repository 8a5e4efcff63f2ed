/**
 * A hub that does not answer, or gives descriptors whose close blocks. Each call of its client ends
 * in time, and the error names the operation.
 */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { channelFiles } from "../../support/channel-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { channelOf, hostArray, hostBundle, timelineDescriptor } from "../../support/messages.js";
import { obliging, type Script, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { LingeringSockets, skipFuse, WaitingFile } from "../../support/waiting-fds.js";

const TIMEOUT_MS = 300;
/** A blocked call would last as long as the descriptor blocks, which is far longer. */
const LATE_MS = 60_000;
const INDEX_BYTES = 100;

const opens: Readonly<Record<string, (hub: Hub, timeoutMs: number) => Promise<Disposable>>> = {
  array: (hub, timeoutMs) => hub.open("array", { timeoutMs }),
  bundle: (hub, timeoutMs) => hub.openBundle("bundle", { timeoutMs }),
  timeline: (hub, timeoutMs) => hub.openTimeline("timeline", { timeoutMs }),
  channel: (hub, timeoutMs) => hub.openChannel("channel", { timeoutMs }),
};

/** @throws unless the call ends in time with this code and a matching message */
async function checkEnds(call: Promise<unknown>, code: string, message: RegExp): Promise<void> {
  const startMs = performance.now();
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof CudaIpcError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  });
  assert.ok(
    performance.now() - startMs < LATE_MS,
    `${code} after ${performance.now() - startMs} ms`,
  );
}

function join(folder: TestFolder, timeoutMs?: number): Promise<Hub> {
  return connect({ socket: folder.socket, start: false, device: "host", timeoutMs });
}

describe("a client of a hub that does not answer", () => {
  checkLeaks();

  for (const [what, open] of Object.entries(opens)) {
    it(`times out an open in time, with the reason: ${what}`, async () => {
      using folder = new TestFolder();
      using _scripted = new ScriptedHub(folder.socket, obliging({ open: () => undefined }));
      await using hub = await join(folder);
      const message = new RegExp(`^Cannot open "${what}": not done within ${TIMEOUT_MS} ms`);
      await checkEnds(open(hub, TIMEOUT_MS), "TIMEOUT", message);
    });
  }

  it("gets a timeout with the socket's path if the hub does not accept or greet it", async () => {
    using folder = new TestFolder();
    const message = new RegExp(
      `connect to the hub at ${folder.socket}: not done within ${TIMEOUT_MS} ms`,
    );
    {
      const deaf = SeqpacketListener.listen(folder.socket);
      await checkEnds(join(folder, TIMEOUT_MS), "TIMEOUT", message);
      deaf.close();
    }
    using other = new TestFolder();
    using _mute = new ScriptedHub(other.socket, obliging({ hello: () => undefined }));
    await checkEnds(
      join(other, TIMEOUT_MS),
      "TIMEOUT",
      new RegExp(`connect to the hub at ${other.socket}`),
    );
  });
});

class Files {
  readonly memory = createMemoryFile("memory", 4096);
  readonly index = createConstantFile("index", Buffer.alloc(INDEX_BYTES, " "));
  readonly channel = channelFiles(channelOf({ readersMax: 1 }).content);

  close(): void {
    for (const fd of [this.memory, this.index, ...this.channel]) fd.close();
  }
}

/**
 * Puts this descriptor in place of each one that an object of this kind has, one after the other.
 */
function giving(
  fd: OwnedFd,
  files: Files,
): { readonly open: Script; readonly rounds: typeof rounds } {
  const rounds = { array: 1, bundle: 2, timeline: 1, channel: 5 } as const;
  const asked = new Map<string, number>();
  const open: Script = ({ name }) => {
    const kind = name as keyof typeof rounds;
    const index = asked.get(kind) ?? 0;
    asked.set(kind, index + 1);
    const channel = channelOf({ readersMax: 1 });
    const descriptor = {
      array: hostArray,
      bundle: hostBundle(1, INDEX_BYTES),
      timeline: timelineDescriptor,
      channel,
    }[kind];
    const place = kind === "channel" ? { place: 0 } : {};
    const good =
      kind === "channel" ? files.channel : [files.memory, files.index].slice(0, rounds[kind]);
    const fds = good.with(index, fd);
    return { result: { object: 7, lease: 8 + index, descriptor, ...place }, fds };
  };
  return { open, rounds };
}

describe("a client of a hub that gives a descriptor whose close blocks", () => {
  checkLeaks();

  const kinds: Readonly<
    Record<string, { readonly make: (folder: TestFolder) => Promise<Given>; skip: string | false }>
  > = {
    "a FUSE file whose server does not answer": { make: fuse, skip: skipFuse },
    "a TCP socket with unsent data": { make: lingering, skip: false },
  };
  for (const [what, { make, skip }] of Object.entries(kinds)) {
    it(`refuses it and goes on: ${what}`, { skip, timeout: 300_000 }, async () => {
      using folder = new TestFolder();
      const files = new Files();
      const given = await make(folder);
      try {
        const { open, rounds } = giving(given.fd, files);
        using scripted = new ScriptedHub(folder.socket, obliging({ open }));
        await using hub = await join(folder);
        for (const [kind, count] of Object.entries(rounds)) {
          for (let index = 0; index < count; index += 1) {
            const call = (opens[kind] as (typeof opens)[string])(hub, LATE_MS);
            await checkEnds(call, "INVALID_DESCRIPTOR", /^Cannot (open|import) /);
          }
        }
        // Descriptors of a reply that needs none, and of a refusal, are closed as well.
        scripted.script = obliging({
          list: () => ({ result: { objects: [], next: null }, fds: [given.fd] }),
          open: () => undefined,
        });
        assert.deepEqual(await hub.list({ timeoutMs: LATE_MS }), []);
        await checkEnds(
          hub.open("array", { timeoutMs: TIMEOUT_MS }),
          "TIMEOUT",
          /^Cannot open "array"/,
        );
        // Node reads files in its thread pool, which must still have free threads.
        assert.ok((await readFile("/proc/self/stat")).byteLength > 0);
      } finally {
        await given.close();
        files.close();
      }
    });
  }
});

interface Given {
  readonly fd: OwnedFd;
  close(): Promise<void>;
}

async function fuse(folder: TestFolder): Promise<Given> {
  const path = folder.file("fuse");
  mkdirSync(path);
  const file = await WaitingFile.open(path);
  return { fd: file.fd, close: () => file[Symbol.asyncDispose]() };
}

async function lingering(): Promise<Given> {
  const sockets = await LingeringSockets.open();
  const fd = sockets.make();
  const close = async () => {
    sockets[Symbol.dispose]();
    fd.close();
  };
  return { fd, close };
}
