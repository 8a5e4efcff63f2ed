/** A bridge that ends while it makes a link. ALONE: libucp changes the process that loads it. */
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { LinkTable } from "../../../../src/bridge/link/link-table.js";
import type { NameStore } from "../../../../src/bridge/names/name-store.js";
import { UcxContext } from "../../../../src/ucx/ucx-context.js";
import { UcxWorker } from "../../../../src/ucx/ucx-worker.js";
import { encodeLinkMessage } from "../../../../src/wire/link-messages.js";
import { MACHINES_VERSION } from "../../../../src/wire/machines-version.js";
import { skipWithoutUcx } from "../../../support/machines/engines.js";

process.env.UCX_TLS = "tcp";

describe("LinkTable", { skip: skipWithoutUcx() }, () => {
  const server = { answer: async () => ({}), more: () => {}, lend: () => 1, takeBack: () => {} };
  const deadline = new Deadline("link", {}, 60_000);

  function tableOf(context: UcxContext, ask: () => Promise<Uint8Array>): LinkTable {
    const store = { serve: () => {}, ask } as unknown as NameStore;
    const instance = randomUUID();
    return new LinkTable({
      machine: "one",
      instance,
      context,
      store,
      log() {},
      serve: () => server,
    });
  }

  /** Agrees to a link over NATS. */
  function agreed(worker: UcxWorker): Uint8Array {
    return encodeLinkMessage({
      ...{
        v: MACHINES_VERSION,
        ok: true,
        machine: "silent",
        instance: randomUUID(),
        ucx: "1.22.0",
      },
      address: Buffer.from(worker.address).toString("base64"),
      secret: randomBytes(32).toString("base64"),
    });
  }

  it("ends a link that the other machine has not greeted yet, before the context", async () => {
    using others = UcxContext.open("lo");
    using silent = UcxWorker.create(others);
    const context = UcxContext.open("lo");
    const links = tableOf(context, async () => agreed(silent));
    const making = links.to("silent", randomUUID(), deadline);
    await new Promise((resolve) => setImmediate(resolve));
    links.close();
    context.close();
    await assert.rejects(making, { code: "CLOSED" });
  });

  it("begins no link if NATS answers after the close", async () => {
    using others = UcxContext.open("lo");
    using silent = UcxWorker.create(others);
    const context = UcxContext.open("lo");
    let answer = (_: Uint8Array) => {};
    const late = new Promise<Uint8Array>((resolve) => {
      answer = resolve;
    });
    const links = tableOf(context, () => late);
    const making = links.to("silent", randomUUID(), deadline);
    links.close();
    context.close();
    answer(agreed(silent));
    await assert.rejects(making, { code: "CLOSED" });
  });

  it("makes no link after it was closed", async () => {
    const context = UcxContext.open("lo");
    const links = tableOf(context, () => assert.fail("nobody may be asked"));
    links.close();
    context.close();
    await assert.rejects(links.to("silent", randomUUID(), deadline), { code: "CLOSED" });
  });
});
