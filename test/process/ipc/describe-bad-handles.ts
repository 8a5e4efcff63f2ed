/**
 * Handles of arrays that must open nothing, between processes, on any kind of device. Each causes
 * an error with a code, and nothing stays open.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { CudaIpcError } from "../../../src/base/errors.js";
import {
  type ArrayHandleDocument,
  IpcArrayHandle,
  openIpcHandle,
} from "../../../src/doors/interop.js";
import { openShared } from "../../../src/doors/peer.js";
import { type DriverOpener, openDriver as usualDriver } from "../../../src/driver/open-driver.js";
import { Device } from "../../../src/index.js";
import { Actor } from "../../support/actor.js";
import {
  type CountingDriver,
  createCountingDriver,
  type LiveCounts,
} from "../../support/live-counts.js";

const SHARES = new URL("./actors/shares-array.js", import.meta.url);
const BLOCK_BYTES = 2 ** 21;

export interface BadHandlesSubject {
  readonly device: "host" | "cuda:0";
  readonly openDriver?: DriverOpener;
  /** Extra environment of the other processes. */
  readonly env?: Readonly<Record<string, string>>;
  readonly skip?: string | false;
  /** True if memory that replaces freed memory gets the same handle bytes. Undefined if unknown. */
  readonly reusesHandles?: boolean;
}

interface Sharer {
  readonly actor: Actor;
  readonly whole: ArrayHandleDocument;
}

export function describeBadHandles(subject: BadHandlesSubject): void {
  const { device: name, openDriver = usualDriver, env = {}, skip = false } = subject;
  describe(`handles that open nothing on ${name}`, { skip }, () => {
    let counting: CountingDriver;
    let device: Device;
    let before: LiveCounts;
    beforeEach(() => {
      counting = createCountingDriver(openDriver(name === "host" ? "host" : "cuda"));
      device = Device.open(name, () => counting.driver);
      before = counting.counts();
    });
    afterEach(() => device.close());

    async function sharer(): Promise<Sharer> {
      const actor = new Actor(SHARES, { args: [name], env });
      return { actor, whole: ((await actor.says()) as { whole: ArrayHandleDocument }).whole };
    }

    const open = (json: unknown) => IpcArrayHandle.from(json).open(device);

    async function refused(
      codes: ErrorCode | readonly ErrorCode[],
      attempt: () => unknown,
    ): Promise<void> {
      await assert.rejects(
        async () => attempt(),
        (error) => {
          assert.ok(
            error instanceof CudaIpcError && [codes].flat().includes(error.code),
            String(error),
          );
          return true;
        },
      );
      assert.deepEqual(counting.counts(), before);
    }

    it("of 63 or 65 bytes", async () => {
      const { actor, whole } = await sharer();
      await using _ = actor;
      const bytes = Buffer.from(whole.handle, "base64");
      for (const wrong of [
        bytes.subarray(1),
        bytes.subarray(0, 63),
        Buffer.concat([bytes, Buffer.of(0)]),
      ]) {
        const document = { ...whole, handle: wrong.toString("base64") };
        await refused("INVALID_HANDLE", () => open(document));
        await refused(["INVALID_HANDLE", "INVALID_DESCRIPTOR"], () =>
          openShared(document, { device }),
        );
        await refused("INVALID_HANDLE", () =>
          openIpcHandle(device, wrong, { dtype: "int32", shape: [24] }),
        );
      }
    });

    it("of another boot, another machine, a reused pid, or a process that is gone", async () => {
      const { actor, whole } = await sharer();
      const { exporter } = whole;
      const bootId = exporter.bootId.replace(/^./, (c) => (c === "0" ? "1" : "0"));
      for (const changed of [{ bootId }, { startTicks: exporter.startTicks + 1 }]) {
        const document = { ...whole, exporter: { ...exporter, ...changed } };
        await refused("STALE_HANDLE", () => open(document));
        await refused("STALE_HANDLE", () => openShared(document, { device }));
      }
      actor.kill("SIGKILL");
      await actor.exited();
      await actor[Symbol.asyncDispose]();
      await refused("STALE_HANDLE", () => open(whole));
      const raw = { dtype: "int32", shape: [24] } as const;
      await refused(["STALE_HANDLE", "INVALID_HANDLE"], () =>
        openIpcHandle(device, whole.handle, raw),
      );
    });

    it("of freed memory that other memory replaced", async () => {
      const { actor, whole } = await sharer();
      await using _ = actor;
      actor.goOn();
      const later = ((await actor.says()) as { whole: ArrayHandleDocument }).whole;
      const same = later.handle === whole.handle;
      if (subject.reusesHandles !== undefined) assert.equal(same, subject.reusesHandles);
      const opened = open(later);
      assert.equal((await opened.read())[0], 100);
      opened.close();
      device.lanes.close();
      // If the bytes are the same, only the generation differs.
      await refused(same ? "STALE_HANDLE" : ["STALE_HANDLE", "INVALID_HANDLE"], () => open(whole));
    });

    it("that claim more than their block, or strides that leave the block", async () => {
      const { actor, whole } = await sharer();
      await using _ = actor;
      const count = BLOCK_BYTES / 4;
      const arrays = [
        { shape: [count + 1], strides: [1], byteOffset: 0 },
        { shape: [2], strides: [-1], byteOffset: 0 },
        { shape: [4, 6], strides: [-6, 1], byteOffset: 0 },
        { shape: [2], strides: [count], byteOffset: 0 },
        { shape: [4], strides: [2 ** 40], byteOffset: 0 },
        { shape: [2, 2], strides: [2 ** 52, -(2 ** 52)], byteOffset: 0 },
        { shape: [4], strides: [1], byteOffset: BLOCK_BYTES - 12 },
      ];
      for (const array of arrays) {
        await refused("INVALID_DESCRIPTOR", () =>
          open({ ...whole, array: { dtype: "int32", ...array } }),
        );
        await refused("INVALID_DESCRIPTOR", () =>
          openIpcHandle(device, whole.handle, { dtype: "int32", ...array }),
        );
      }
      const larger = { dtype: "int32", shape: [count + 1], strides: [1], byteOffset: 0 };
      await refused("INVALID_DESCRIPTOR", () =>
        open({ ...whole, blockByteLength: 2 * BLOCK_BYTES, array: larger }),
      );
    });

    it("for writing, if they were opened for reading", async () => {
      const { actor, whole } = await sharer();
      await using _ = actor;
      using array = open(whole).expectDType("int32");
      before = counting.counts();
      await refused("READ_ONLY", () => array.write(new Int32Array(24)));
      await refused("READ_ONLY", () => array.slice(0).write(new Int32Array(6)));
      await refused("READ_ONLY", () => array.clear());
      await refused("READ_ONLY", () => array.fill(1));
      using stream = device.createStream();
      before = counting.counts();
      await refused("READ_ONLY", () => array.iota(0, 1, { stream }));
      assert.equal((await array.read())[23], 23);
    });
  });
}
