/** What NATS gets to see of an array that one machine copies from another. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { connect } from "@nats-io/transport-node";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TwoMachines } from "../../support/machines/two-machines.js";

const SHAPE = [3, 4099];

describe("NATS", { skip: skipWithoutEngines }, () => {
  it("sees the name, the form and the secrets of links, and nothing of the bytes", async () => {
    await using site = await TwoMachines.start();
    const seen: Buffer[] = [];
    const connection = await connect({ servers: site.nats.url });
    try {
      connection.subscribe(">", {
        callback: (_, message) => {
          seen.push(Buffer.from(message.data));
        },
      });
      // The server knows of the subscription.
      await connection.flush();
      const bytes = randomBytes(3 * 4099);
      const { hubOfOne, hubOfOther } = site;
      using writer = await hubOfOne.createChannel("frames", { byteLength: 64 });
      using original = await hubOfOne.create("grid", { dtype: "uint8", shape: SHAPE });
      await original.write(bytes);
      await original.publish();
      using copy = await hubOfOther.open("grid", { from: "any", dtype: "uint8" });
      assert.ok(Buffer.from(await copy.read()).equals(bytes));
      using reader = await hubOfOther.openChannel("frames", { machine: "any", timeoutMs: 20_000 });
      const slot = await writer.loan();
      slot.bytes.set(bytes.subarray(0, 64));
      slot.commit();
      using message = await reader.next({ timeoutMs: 20_000 });
      assert.ok(Buffer.from(message?.bytes ?? []).equals(bytes.subarray(0, 64)));
      await connection.flush();

      const has = (text: Buffer | string) => seen.some((it) => it.includes(text));
      assert.ok(has('"grid"') && has(JSON.stringify(SHAPE)) && has('"secret"'));
      for (const start of [0, bytes.byteLength - 16]) {
        const part = bytes.subarray(start, start + 16);
        for (const text of [part, part.toString("hex"), part.toString("base64").slice(0, 20)])
          assert.ok(!has(text));
      }
    } finally {
      await connection.close();
    }
  });
});
