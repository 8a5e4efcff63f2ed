/**
 * The client in C shares GPU memory with this process: arrays, bundles, and the slots of channels.
 * Each wait has a limit, so that a driver which does not go on is named by the test that waited.
 */
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { DeviceArray, type Hub } from "../../../src/index.js";
import { withGpuHub } from "../../gpu/gpu-hub.js";
import { CPrograms } from "./c-programs.js";

const LIMIT = { timeoutMs: 60_000 };
const COUNT = 500;

function hex(values: NodeJS.ArrayBufferView): string {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex");
}

/** @param options those of `CPrograms`, and why the tests are skipped */
export function describeGpuClient(
  name: string,
  { skip, ...options }: { readonly skip: string | false; readonly sanitize: boolean },
): void {
  describe(name, { skip, timeout: 240_000 }, () => {
    let hub: Hub;
    let programs: CPrograms;
    withGpuHub((it) => {
      hub = it;
    });
    before(() => {
      programs = new CPrograms(options);
    });

    const peer = (command: string, ...args: string[]) =>
      programs.peerOn("cuda:0", hub.socketPath, command, ...args);

    it("reads what Node wrote to a GPU", async () => {
      const values = Float32Array.from({ length: 1000 }, (_, index) => index / 7);
      using array = await hub.create("node", { dtype: "float32", shape: [1000] });
      await array.write(values, LIMIT);
      await array.publish(LIMIT);
      await using reader = peer("reads", "node");
      const said = { dtype: "float32", shape: [1000], contiguous: true, hex: hex(values) };
      assert.deepEqual(await reader.said(), said);
      await reader.finish();
    });

    it("makes an array on a GPU, and sees what Node does to it", async () => {
      const values = Int32Array.of(1, 2, 3, 4);
      await using maker = peer("makes", "c", "int32", hex(values), "4");
      assert.equal(await maker.said(), "published");
      {
        using opened = await hub.open("c", { access: "read-write", dtype: "int32", ...LIMIT });
        assert.equal(opened.device.name, "cuda:0");
        assert.deepEqual(await opened.read(LIMIT), values);
        await opened.write(
          values.map((value) => 10 * value),
          LIMIT,
        );
      }
      maker.tell();
      assert.equal(await maker.said(), hex(Int32Array.of(10, 20, 30, 40)));
      await maker.finish();
    });

    it("reads a channel whose slots a stream of Node writes", async () => {
      using writer = await hub.createChannel("node-channel", {
        dtype: "uint8",
        shape: [4096],
        slots: 4,
      });
      using stream = hub.device().createStream();
      await using reader = peer("counts", "node-channel");
      assert.equal(await reader.said(), "reading");
      for (let sequence = 0; sequence < COUNT; sequence += 1) {
        using slot = await writer.loan({ stream, ...LIMIT });
        await slot.array.fill(sequence % 251, { stream });
        slot.commit({ meta: sequence });
      }
      await stream.synchronize(LIMIT);
      writer.close();
      const { wrong, received, end } = (await reader.said()) as Record<string, unknown>;
      assert.deepEqual({ wrong, received, end }, { wrong: 0, received: COUNT, end: "closed" });
      await reader.finish();
    });

    it("writes a channel that a stream of Node reads", async () => {
      await using writer = peer("writes", "c-channel", "0", String(COUNT));
      assert.equal(await writer.said(), "writing");
      using stream = hub.device().createStream();
      using reader = await hub.openChannel("c-channel", { stream, ...LIMIT });
      writer.tell();
      for (let sequence = 0; sequence < COUNT; sequence += 1) {
        using slot = await reader.next(LIMIT);
        assert.equal(slot?.sequence, sequence);
        const length = slot.byteLength;
        using out = DeviceArray.allocate(hub.device(), { dtype: "uint8", shape: [length] });
        await out.copyFrom(slot.array.expectDType("uint8"), { stream });
        await stream.synchronize(LIMIT);
        assert.ok((await out.read(LIMIT)).every((byte) => byte === sequence % 251));
      }
      assert.deepEqual(await writer.said(), { refused: 0, readers: 1 });
      writer.tell();
      assert.equal(await reader.next(LIMIT), undefined);
      await writer.finish();
    });

    it("makes a bundle on a GPU, and reads one of Node", async () => {
      const values = Float32Array.of(1, 2, 3);
      await using maker = peer(
        "bundle-makes",
        "c-bundle",
        "k",
        "v",
        "a",
        "float32",
        hex(values),
        "3",
      );
      assert.equal(await maker.said(), "published");
      {
        using bundle = await hub.openBundle("c-bundle", { access: "read-write", ...LIMIT });
        const array = bundle.array("a").expectDType("float32");
        assert.equal(array.device.name, "cuda:0");
        assert.deepEqual(await array.read(LIMIT), values);
        await array.write(
          values.map((value) => -value),
          LIMIT,
        );
      }
      maker.tell();
      await maker.said();
      const changed = { dtype: "float32", shape: [3], contiguous: true };
      assert.deepEqual(await maker.said(), { ...changed, hex: hex(Float32Array.of(-1, -2, -3)) });
      await maker.finish();
      using bundle = await hub.createBundle("node-bundle", { b: { dtype: "int16", shape: [2] } });
      await bundle.array("b").write(Int16Array.of(7, -7), LIMIT);
      await bundle.publish(LIMIT);
      await using reader = peer("bundle-visits", "node-bundle", "b");
      assert.equal(((await reader.said()) as { hex: string }).hex, hex(Int16Array.of(7, -7)));
      await reader.finish();
    });

    it("goes on with a channel on a GPU after a writer in C that was killed", async () => {
      const first = peer("writes", "c-followed", "0", "3", "wait");
      try {
        assert.equal(await first.said(), "writing");
        using reader = await hub.openChannel("c-followed", LIMIT);
        first.tell();
        await first.said();
        await first[Symbol.asyncDispose]();
        await using second = await resumed("c-followed");
        second.tell();
        for (let sequence = 0; sequence < 5; sequence += 1) {
          using slot = await reader.next(LIMIT);
          assert.equal(slot?.sequence, sequence);
          const bytes = await slot.array.expectDType("uint8").read(LIMIT);
          assert.ok(bytes.every((byte) => byte === sequence));
        }
        await second.said();
        second.tell();
        assert.equal(await reader.next(LIMIT), undefined);
        await second.finish();
      } finally {
        await first[Symbol.asyncDispose]();
      }
    });

    /** The hub learns of a death a little later than this process. */
    async function resumed(name: string) {
      for (;;) {
        const writer = peer("resumes", name, "2", "60000", "end");
        const said = await writer.said();
        if (!Array.isArray(said)) return writer;
        assert.equal(said[0], "IN_USE");
        await writer.finish();
      }
    }
  });
}
