/** Pools and growing memory between real processes, on any kind of device. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { beforeEach, describe, it } from "node:test";
import type { DriverOpener } from "../../../src/driver/open-driver.js";
import { GrowingArray } from "../../../src/gpu/arrays/growing-array.js";
import { Device } from "../../../src/gpu/device.js";
import { GrowingBuffer } from "../../../src/gpu/memory/growing-buffer.js";
import { MemoryPool } from "../../../src/gpu/memory/memory-pool.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import type { PooledDescriptor } from "../../../src/wire/pool-descriptor.js";
import { Actor } from "../../support/actor.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";

const COUNT = 1024;
const IMPORTER = new URL("./actors/imports-pool.js", import.meta.url);
const EXPORTER = new URL("./actors/exports-and-waits.js", import.meta.url);

export interface PoolsSubject {
  readonly device: "host" | "cuda:0";
  readonly openDriver?: DriverOpener;
  /** Extra environment of the other processes. */
  readonly env?: Readonly<Record<string, string>>;
  readonly skip?: string | false;
}

export function describePools({ device: name, openDriver, env, skip = false }: PoolsSubject): void {
  describe(`memory of pools between processes on ${name}`, { skip }, () => {
    let made = new Disposables();
    let device: Device;
    checkLeaks(() => made.end());
    beforeEach(() => {
      made = new Disposables();
      device = made.add(Device.open(name, openDriver));
    });

    function importer(pool: MemoryPool, buffers: readonly PooledDescriptor[]): Actor {
      const { fd, descriptor } = pool.export();
      made.add(fd);
      return new Actor(IMPORTER, {
        fds: [fd.number],
        env: { ...env, CUDA_IPC_DEVICE: name },
        args: [JSON.stringify(descriptor), ...buffers.map((it) => JSON.stringify(it))],
      });
    }

    it("goes to a child, which imports it repeatedly, and comes back changed", async () => {
      const pool = made.add(MemoryPool.create(device, { maxBytes: 1 << 20, shared: true }));
      const [array, other] = [1, 2].map(() =>
        made.add(pool.allocateArray({ dtype: "float32", shape: [COUNT] })),
      );
      assert.ok(array !== undefined && other !== undefined);
      for (const it of [array, other])
        await it.write(new Float32Array(COUNT).map((_, i) => i + 100));
      await using actor = importer(pool, [
        await pool.exportBuffer(array.buffer),
        await pool.exportBuffer(array.buffer),
      ]);
      assert.deepEqual(await actor.says(), { imported: true, maxBytes: 1 << 20 });
      actor.goOn();
      const sum = (COUNT * (COUNT - 1)) / 2;
      assert.deepEqual(await actor.says(), { same: true, sum: sum + 100 * COUNT, used: true });
      assert.deepEqual(
        await array.read(),
        new Float32Array(COUNT).map((_, i) => -i),
      );
      actor.goOn();
      assert.deepEqual(await actor.says(), { same: true, sum: -sum, used: true });
      assert.deepEqual(await actor.says(), { used: false });
      assert.equal(await actor.exited(), 0);
      assert.deepEqual(
        await other.read(),
        new Float32Array(COUNT).map((_, i) => i + 100),
      );
    });

    it("is refused if freed, of another pool or invented, and maps nothing", async () => {
      const [pool, elsewhere] = [1, 2].map(() =>
        made.add(MemoryPool.create(device, { maxBytes: 1 << 20, shared: true })),
      );
      assert.ok(pool !== undefined && elsewhere !== undefined);
      const freed = pool.allocate(4 * COUNT);
      const kept = made.add(pool.allocate(4 * COUNT));
      const foreign = await elsewhere.exportBuffer(made.add(elsewhere.allocate(4 * COUNT)));
      const [past, good] = [await pool.exportBuffer(freed), await pool.exportBuffer(kept)];
      freed.close();
      const reused = made.add(pool.allocate(4 * COUNT));
      await reused.fill(0, { elementBytes: 1, value: 1 }, 4 * COUNT);
      // The driver of a GPU does not report that memory was freed.
      const freedIsKnown = name === "host" ? ["INVALID_HANDLE"] : [];
      await using actor = importer(pool, [
        ...(name === "host" ? [past] : []),
        foreign,
        { ...foreign, pool: pool.id },
        { ...good, pool: randomUUID() },
        { ...good, allocationByteLength: 1 << 19 },
        { ...good, byteLength: 1 << 19, allocationByteLength: 1 << 18 },
      ]);
      await actor.says();
      const invalid = ["INVALID_HANDLE", "INVALID_HANDLE", "INVALID_HANDLE"];
      for (const code of [
        ...freedIsKnown,
        ...invalid,
        "INVALID_DESCRIPTOR",
        "INVALID_DESCRIPTOR",
      ]) {
        actor.goOn();
        assert.deepEqual(await actor.says(), { code });
      }
      assert.deepEqual(await actor.says(), { used: false });
      assert.equal(await actor.exited(), 0);
      const bytes = new Uint8Array(4 * COUNT);
      await reused.read(0, bytes);
      assert.ok(bytes.every((byte) => byte === 1));
    });

    it("stays readable, and growing memory too, when its exporter is killed", async () => {
      const [here, there] = SeqpacketSocket.pair();
      made.add(here.fd);
      await using actor = new Actor(EXPORTER, {
        fds: [there.fd.number],
        env: { ...env, CUDA_IPC_DEVICE: name },
      });
      assert.equal(await actor.says(), "sent");
      there.close();
      const received = async (): Promise<{
        readonly value: never;
        readonly fds: readonly OwnedFd[];
      }> => {
        let packet: ReturnType<SeqpacketSocket["tryReceive"]>;
        await until("a message is there", () => {
          packet = here.tryReceive();
          return packet !== undefined;
        });
        assert.ok(packet !== undefined && packet !== "end");
        for (const fd of packet.fds) made.add(fd);
        return {
          value: JSON.parse(new TextDecoder().decode(packet.bytes)) as never,
          fds: packet.fds,
        };
      };
      const first = (await received()) as unknown as {
        value: { pool: never; buffer: never };
        fds: [OwnedFd];
      };
      const pool = made.add(MemoryPool.import(device, first.fds[0], first.value.pool));
      const array = made.add(
        pool.importArray(first.value.buffer, { dtype: "int32", shape: [COUNT] }),
      );
      const growing = await received();
      const follower = made.add(GrowingBuffer.import(device, growing.fds, growing.value));
      const rows = GrowingArray.over(follower, { dtype: "int32", shape: [] });
      assert.deepEqual(await rows.array.read(), new Int32Array(1024).fill(1));
      actor.goOn();
      assert.equal(await actor.says(), "grown");
      const more = await received();

      actor.kill("SIGKILL");
      assert.equal(await actor.exited(), "SIGKILL");
      follower.extend(more.fds, more.value);
      assert.equal(rows.length, 101_024);
      assert.deepEqual(
        await rows.array.slice({ start: 1024 }).read(),
        new Int32Array(100_000).fill(2),
      );
      assert.deepEqual(
        await array.read(),
        new Int32Array(COUNT).map((_, i) => i + 100),
      );
      await array.clear();
      assert.throws(() => pool.allocate(1), /it was imported/);
    });
  });
}
