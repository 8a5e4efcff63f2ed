/**
 * Arrays by 64-byte handles on a real GPU, to and from PyTorch, CuPy, Numba and a program in C.
 * Each test is skipped by name if the package, the compiler or cuda.h is missing.
 */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import {
  IpcArrayHandle,
  MemoryPool,
  openIpcHandle,
  receiveFd,
  sendFd,
  UnixListener,
} from "../../src/doors/interop.js";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import { Device, DeviceArray } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import {
  type CountingDriver,
  createCountingDriver,
  type LiveCounts,
} from "../support/live-counts.js";
import { soon, until } from "../support/until.js";
import { findCudaHeader } from "../unit/ffi/cuda-header.js";
import { python, whyNoPackage } from "./python-packages.js";

const PROGRAMS = new URL("../../../test/gpu/programs/", import.meta.url);
const withOwnPackage = [resolve("python/src"), process.env.PYTHONPATH].filter(Boolean).join(":");
const COUNT = 1_000_000;
/** Elements before the shared part, so that its offset is not 0. */
const BEFORE = 100;
const PART = COUNT - BEFORE;

interface OtherProgram {
  readonly name: string;
  readonly skip: string | false;
  /** The program and its first arguments. */
  readonly command: () => readonly string[];
}

const header = findCudaHeader();
let folder = "";

function inC(): readonly string[] {
  if (typeof header === "string") assert.fail(header);
  const program = join(folder, "handles");
  const source = fileURLToPath(new URL("handles.c", PROGRAMS));
  header.compile(source, program, ["-O2", "-Wall", "-Wl,--no-as-needed", "-ldl"]);
  return [program];
}

const inPython = (name: string, module: string, packageName: string): OtherProgram => ({
  name,
  skip: whyNoPackage(module),
  command: () => [python, fileURLToPath(new URL("handles.py", PROGRAMS)), packageName],
});

const noHeader =
  typeof header === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" ? header : false;
const programs: readonly OtherProgram[] = [
  inPython("PyTorch", "torch", "torch"),
  inPython("CuPy", "cupy", "cupy"),
  inPython("Numba", "numba.cuda", "numba"),
  inPython("our Python package", "torch", "cuda_ipc"),
  { name: "a program in C", skip: whyNoGpu() ?? noHeader, command: inC },
];

/** The running program: it says lines of JSON, and waits for a line. */
class Peer {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  #complaint = "";

  constructor({ command }: OtherProgram, ...args: readonly string[]) {
    const [file = "", ...first] = command();
    this.#child = spawn(file, [...first, ...args], {
      env: { ...process.env, PYTHONPATH: withOwnPackage },
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint += text;
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async says(): Promise<unknown> {
    const { value, done } = await soon("the program says something", this.#lines.next());
    if (done) assert.fail(`the program ended without a word: ${this.#complaint}`);
    return JSON.parse(value);
  }

  goOn(): void {
    this.#child.stdin.write("\n");
  }

  async finished(): Promise<void> {
    const { exitCode } = this.#child;
    const [code] =
      exitCode === null ? await soon("it ends", once(this.#child, "close")) : [exitCode];
    assert.equal(code, 0, this.#complaint);
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

describe("arrays by handle, with other programs on the GPU", { skip: whyNoGpu() ?? false }, () => {
  let counting: CountingDriver;
  let device: Device;
  let live: LiveCounts;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "cuda-ipc-other-programs-"));
  });
  after(() => rmSync(folder, { recursive: true }));
  beforeEach(() => {
    counting = createCountingDriver(createCudaDriver());
    live = counting.counts();
    device = Device.open("cuda:0", () => counting.driver);
  });
  afterEach(async () => {
    device.close();
    // A socket closes a little later, because its last close may wait.
    await until("the sockets are closed", () => counting.counts().fds === live.fds);
    assert.deepEqual(counting.counts(), live);
  });

  for (const program of programs) {
    const { name, skip } = program;

    it(`${name} opens our array, and we see what it writes`, { skip }, async () => {
      const layout = { dtype: "float32", shape: [COUNT], mechanism: "legacy" } as const;
      using array = DeviceArray.allocate(device, layout);
      await array.write(Float32Array.from({ length: COUNT }, (_, i) => i + 0.5));
      const handle = IpcArrayHandle.of(array.slice({ start: BEFORE }));
      const { byteOffset } = handle.toJSON().array;
      const hex = Buffer.from(handle.bytes).toString("hex");
      using peer = new Peer(program, "open", hex, String(byteOffset), String(PART));
      assert.deepEqual(await peer.says(), {
        first: [100.5, 101.5, 102.5],
        sum: (COUNT ** 2 - BEFORE ** 2) / 2,
      });
      await peer.finished();
      const values = await array.read();
      const wrong = values.findIndex((value, i) => value !== (i + 0.5) * (i < BEFORE ? 1 : 2));
      assert.equal(wrong, -1);
    });

    it(`we open an array of ${name}, which sees what we write`, { skip }, async () => {
      using peer = new Peer(program, "share");
      const { handle, byteOffset } = (await peer.says()) as { handle: string; byteOffset: number };
      const options = { dtype: "float32", shape: [PART], access: "read-write" } as const;
      const bytes = Buffer.from(handle, "hex");
      using array = openIpcHandle(device, bytes, { ...options, byteOffset });
      const values = await array.read();
      assert.equal(
        values.findIndex((value, i) => value !== BEFORE + i + 0.5),
        -1,
      );
      await array.slice({ stop: 2 }).write([-1, -2]);
      array.close();
      peer.goOn();
      assert.deepEqual(await peer.says(), [-1, -2, 102.5]);
      await peer.finished();
    });
  }

  // CuPy looks at what cuda.core has, which has no operations on elements.
  const noCore = whyNoPackage("cuda.core") || whyNoPackage("cupy");
  const inPool = (...first: readonly string[]): OtherProgram => ({
    name: first.join(" "),
    skip: noCore,
    command: () => [python, fileURLToPath(new URL("handles.py", PROGRAMS)), ...first],
  });

  for (const reader of ["cuda.core", "pool"]) {
    const name = reader === "pool" ? "our Python package" : "cuda.core";
    it(`${name} opens a buffer of our pool, and we see what it writes`, {
      skip: noCore,
    }, async () => {
      using pool = MemoryPool.create(device, { maxBytes: 2 ** 21, shared: true });
      using buffer = pool.allocate(4096);
      await buffer.write(0, Uint8Array.of(1, 2, 3));
      const { fd } = pool.export();
      using descriptor = fd;
      const { data, allocationByteLength: size } = await pool.exportBuffer(buffer);
      const path = join(folder, `${reader}.sock`);
      using listener = UnixListener.listen(path, { type: "seqpacket" });
      using peer = new Peer(inPool(reader, "open"), path);
      using socket = await listener.accept({ timeoutMs: 60_000 });
      const metadata = { data: Buffer.from(data, "base64").toString("hex"), size };
      await sendFd(socket, descriptor, Buffer.from(JSON.stringify(metadata)));
      assert.deepEqual(await peer.says(), [1, 2, 3]);
      assert.deepEqual(await peer.says(), { done: true });
      await peer.finished();
      const found = new Uint8Array(4);
      await buffer.read(0, found);
      assert.deepEqual([...found].slice(0, 3), [9, 8, 7]);
    });
  }

  it("we open a buffer of cuda.core's pool, which sees what we write", {
    skip: noCore,
  }, async () => {
    const path = join(folder, "core.sock");
    using listener = UnixListener.listen(path, { type: "seqpacket" });
    using peer = new Peer(inPool("cuda.core", "share"), path);
    using socket = await listener.accept({ timeoutMs: 60_000 });
    const { fd, metadata } = await receiveFd(socket);
    using descriptor = fd;
    const { data, size } = JSON.parse(Buffer.from(metadata).toString()) as {
      readonly data: string;
      readonly size: number;
    };
    assert.deepEqual(await peer.says(), { sent: size });
    // Any id does: it tells pools apart that this process has imported.
    const id = randomUUID();
    using pool = MemoryPool.import(device, descriptor, {
      version: 1,
      kind: "pool",
      device: device.reference,
      pool: id,
      maxBytes: 2 * size,
    });
    using buffer = pool.import({
      version: 1,
      kind: "pooled",
      pool: id,
      data: Buffer.from(data, "hex").toString("base64"),
      byteLength: size,
      allocationByteLength: size,
    });
    const found = new Uint8Array(size);
    await buffer.read(0, found);
    assert.equal(
      found.findIndex((value, i) => value !== i % 256),
      -1,
    );
    await buffer.write(0, Uint8Array.of(9, 8, 7));
    buffer.close();
    peer.goOn();
    assert.deepEqual(await peer.says(), [9, 8, 7]);
    await peer.finished();
  });

  const [torch] = programs;
  it("PyTorch waits for our event", { skip: torch?.skip ?? false }, async () => {
    assert.ok(torch !== undefined);
    using array = DeviceArray.allocate(device, { dtype: "float32", shape: [16] });
    using start = device.createTimeline();
    using stream = device.createStream();
    using event = device.createEvent();
    device.prepareOperations();
    stream.wait(start, 1);
    await array.fill(1, { stream });
    event.record(stream);
    const hex = Buffer.from(event.export().handle, "base64").toString("hex");
    using peer = new Peer(torch, "event", hex);
    assert.deepEqual(await peer.says(), { done: false });
    start.signal(1);
    peer.goOn();
    assert.deepEqual(await peer.says(), { done: true });
    await peer.finished();
    await stream.synchronize({ timeoutMs: 30_000 });
  });
});
