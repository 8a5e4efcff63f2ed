/**
 * A session of the library with a hub whose answers are always the same: for each call what is
 * sent, what is answered, and what the files hold afterwards.
 */
import assert from "node:assert/strict";
import { fstatSync } from "node:fs";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { readFilePart, writeFilePart } from "../../../src/os/file-calls.js";
import { reopenReadOnly } from "../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { beginSeat } from "../../../src/ring/channel-end.js";
import { channelFdsAt } from "../../../src/ring/channel-fds.js";
import {
  type Answer,
  type HeardRequest,
  type ScriptedConnection,
  ScriptedHub,
} from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";
import { HEX_NOTE, hexOf } from "./hex.js";

/** Who asks differs from program to program, so it stands for all of them. */
const CLIENT = { version: "1.0.0", program: "example" };
const GREETING = {
  version: "1.0.0",
  instance: "01234567-89ab-4def-8123-456789abcdef",
  pid: 4242,
  session: 3,
  resumed: false,
};

interface Exchange {
  readonly request: string;
  /** How many file descriptors come with it. */
  readonly fds: number;
  readonly reply: string;
  /** Which descriptors of the object's `create` go back. The first two go back for reading. */
  readonly replyFds: readonly number[];
}

/** The hub: it numbers objects and leases, and gives what came with `create`. */
class Recorder {
  exchanges: Exchange[] = [];
  /** Of the latest `create`. */
  files: readonly OwnedFd[] = [];
  readonly #objects = new Map<unknown, { object: number; descriptor: unknown; fds: OwnedFd[] }>();
  readonly #copies: OwnedFd[] = [];
  #last = 0;

  answer(request: HeardRequest, connection: ScriptedConnection): Answer {
    const { fds, ...sent } = request;
    if (request.op === "hello") Object.assign(sent, { client: CLIENT });
    const replyFds: number[] = [];
    const answer = this.#answer(request, connection, replyFds);
    const refusal = { ok: false, error: answer };
    const reply = "code" in answer ? refusal : { ok: true, result: answer };
    this.exchanges.push({
      request: JSON.stringify(sent),
      fds,
      reply: JSON.stringify({ v: 1, id: request.id, ...reply }),
      replyFds,
    });
    const found = this.#objects.get(request.name);
    if (found === undefined || replyFds.length === 0) return answer;
    return { result: answer, fds: replyFds.map((at) => this.#given(found.fds, at)) };
  }

  #answer(request: HeardRequest, connection: ScriptedConnection, replyFds: number[]) {
    const { op, name, role } = request;
    if (op === "hello") return GREETING;
    if (op === "create") {
      this.files = connection.fds.slice(-request.fds);
      const { descriptor } = request;
      this.#objects.set(name, { object: ++this.#last, descriptor, fds: [...this.files] });
      return { object: this.#last, lease: ++this.#last };
    }
    if (op !== "open") return {};
    const found = this.#objects.get(name);
    if (found === undefined)
      return { code: "NOT_FOUND", message: `Cannot open "${name}": no object has this name` };
    const { object, descriptor, fds } = found;
    const lease = ++this.#last;
    replyFds.push(...fds.keys());
    if (role !== "reader") return { object, lease, descriptor };
    const page = fds[channelFdsAt.page(0)];
    assert.ok(page !== undefined);
    beginSeat(
      {
        read: (at, into) => void readFilePart(page, into, at),
        write: (at, from) => writeFilePart(page, from, at),
      },
      lease,
    );
    return { object, lease, descriptor, place: 0 };
  }

  #given(fds: readonly OwnedFd[], at: number): OwnedFd {
    const fd = fds[at];
    assert.ok(fd !== undefined);
    if (at > channelFdsAt.control) return fd;
    const copy = reopenReadOnly(fd);
    this.#copies.push(copy);
    return copy;
  }

  close(): void {
    for (const copy of this.#copies) copy.close();
  }
}

function bytesOf(fd: OwnedFd | undefined): Uint8Array {
  assert.ok(fd !== undefined);
  const bytes = new Uint8Array(fstatSync(fd.number).size);
  readFilePart(fd, bytes, 0);
  return bytes;
}

class Session {
  readonly steps: object[] = [];
  readonly recorder: Recorder;
  constructor(recorder: Recorder) {
    this.recorder = recorder;
  }

  /**
   * @param requests how many the call sends
   * @param files which files of the latest `create` to show
   */
  async step<T>(
    call: string,
    requests: number,
    act: () => T | Promise<T>,
    files: readonly number[] = [],
  ): Promise<Awaited<T>> {
    const { recorder } = this;
    recorder.exchanges = [];
    const made = await act();
    await until(`the hub hears: ${call}`, () => recorder.exchanges.length >= requests);
    const { exchanges } = recorder;
    const shown = files.map((at) => [at, hexOf(bytesOf(recorder.files[at]))]);
    this.steps.push({
      call,
      exchanges,
      ...(shown.length > 0 && { files: Object.fromEntries(shown) }),
    });
    return made;
  }
}

async function callAll(session: Session, socket: string): Promise<void> {
  const read = { wait: false };
  const hub: Hub = await session.step("connect", 1, () =>
    connect({ socket, start: false, device: "host" }),
  );
  const numbers = Float32Array.of(1, 2, 3, 4, 5, 6);
  const put = { shape: [2, 3], lifetime: "pinned" } as const;
  const array = await session.step(
    'put the float32 array [[1, 2, 3], [4, 5, 6]] as "numbers", pinned',
    2,
    () => hub.put("numbers", numbers, put),
    [0],
  );
  const opened = await session.step('open "numbers", without waiting', 1, async () => {
    const found = await hub.open("numbers", read);
    assert.deepEqual(await found.read(), numbers);
    return found;
  });
  await session.step("close what was opened", 1, () => opened.close());
  await session.step('open "missing", without waiting', 1, () =>
    assert.rejects(hub.open("missing", read), { code: "NOT_FOUND" }),
  );
  await session.step('remove "numbers"', 1, () => hub.remove("numbers"));
  await session.step('close "numbers"', 1, () => array.close());
  const layers = { b: { dtype: "uint8", shape: [3] }, none: { dtype: "int64", shape: [2, 0] } };
  const bundle = await session.step(
    'create the bundle "layers": b, uint8 [3], and none, int64 [2, 0]; metadata {"by": "me"}',
    1,
    () => hub.createBundle("layers", layers as never, { metadata: { by: "me" } }),
    [1],
  );
  await session.step("close the bundle", 1, () => bundle.close());
  const clock = await session.step(
    'create the timeline "clock", and signal 5',
    2,
    async () => {
      const made = await hub.createTimeline("clock");
      made.signal(5);
      return made;
    },
    [0],
  );
  await session.step("close the timeline", 1, () => clock.close(), [0]);
  const writer = await session.step(
    'create the channel "frames": uint8 [16], 2 slots, 1 reader, 8 bytes of meta',
    2,
    () =>
      hub.createChannel("frames", {
        dtype: "uint8",
        shape: [16],
        slots: 2,
        readersMax: 1,
        metaBytesMax: 8,
      }),
    [1, 3],
  );
  const reader = await session.step(
    'open "frames" for reading, from the next message',
    1,
    () => hub.openChannel("frames"),
    [3],
  );
  await session.step("close the reader", 1, () => reader.close());
  await session.step("close the writer", 1, () => writer.close(), [1]);
  await session.step("leave the hub", 1, () => hub.close());
}

/** docs/protocol/vectors/session.json */
export async function sessionVectors(): Promise<object> {
  using folder = new TestFolder();
  const recorder = new Recorder();
  using _hub = new ScriptedHub(folder.socket, (request, connection) =>
    recorder.answer(request, connection),
  );
  const session = new Session(recorder);
  await callAll(session, folder.socket);
  recorder.close();
  return { note: HEX_NOTE, steps: session.steps };
}
