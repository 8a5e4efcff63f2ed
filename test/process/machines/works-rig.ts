/** Two machines that do for each other all that bridges do, for tests that disturb them. */
import assert from "node:assert/strict";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { type Service, serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import type { TestMachineOptions } from "../../support/machines/test-machine.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { until } from "../../support/until.js";

/** Short, because each test waits for some of them to pass. */
const LIMITS = {
  machineSilenceMs: 2000,
  machineTtlMs: 2000,
  machineReturnMs: 2000,
  linkTimeoutMs: 1000,
  carriedUnreadMs: 1000,
  serviceClaimTimeoutMs: 2000,
} as const;
/** Longer than all of them together. */
export const WAIT_MS = 6000;
/** Of an array: a piece and a bit. */
const BYTES = 5 * 1024 * 1024 + 3;
/** How a wait may end if a bridge does. */
const CODES = ["PEER_GONE", "TIMEOUT", "BRIDGE_UNAVAILABLE", "NOT_FOUND"] as const;

/** Resolves when it has succeeded. */
export type Work = (site: TwoMachines) => Promise<void>;

/** What two machines do for each other. Each may be done again and again. */
export const works: Readonly<Record<string, Work>> = {
  "a fetch": async ({ hubOfOther }) => {
    const options = { from: "any", dtype: "uint8", timeoutMs: WAIT_MS } as const;
    using copy = await hubOfOther.open("array", options);
    const bytes = await copy.read();
    assert.equal(bytes.byteLength, BYTES);
    assert.ok(bytes.every((it) => it === 7));
  },
  "a carried channel": async ({ hubOfOne, hubOfOther }) => {
    using writer = await hubOfOne.createChannel("frames", { byteLength: 100_000, slots: 4 });
    const options = { machine: "any", timeoutMs: WAIT_MS } as const;
    using reader = await hubOfOther.openChannel("frames", options);
    // One in the frame of its answer, and one copied.
    for (const byteLength of [100, 100_000]) {
      const slot = await writer.loan({ timeoutMs: WAIT_MS });
      slot.bytes.fill(7);
      slot.commit({ byteLength });
      using message = await reader.next({ timeoutMs: WAIT_MS });
      assert.equal(message?.byteLength, byteLength);
      assert.ok(message.bytes.every((it) => it === 7));
    }
  },
  "a request to a service": async ({ hubOfOther }) => {
    const client = connectService(hubOfOther, "echo", { machine: "any", policy: "fail" });
    try {
      using reply = await client.request(undefined, { meta: "there", timeoutMs: WAIT_MS });
      assert.equal(reply.json, "there");
    } finally {
      await client.close();
    }
  },
};

/** UCX does not say which call of the system failed. */
export const NO_ROOM_CODES: readonly string[] = ["TOO_MANY_FDS", "SYSTEM_ERROR"];

export function isEnd(error: unknown): boolean {
  return CODES.some((code) => hasCode(error, code));
}

export class WorksRig implements AsyncDisposable {
  readonly site: TwoMachines;
  readonly #service: Service;

  private constructor(site: TwoMachines, service: Service) {
    this.site = site;
    this.#service = service;
  }

  /** Resolves when all works have been done once. */
  static async start(optionsOfOther: TestMachineOptions = {}): Promise<WorksRig> {
    const options = { args: ["--announce", "*"], limits: LIMITS };
    const site = await TwoMachines.start(options, { ...options, ...optionsOfOther });
    try {
      const { hubOfOne } = site;
      const values = new Uint8Array(BYTES).fill(7);
      (await hubOfOne.put("array", values, { lifetime: "pinned" })).close();
      const request = { dtype: "uint8", shape: [8] } as const;
      const echo = await serve(hubOfOne, "echo", { request }, (it) => ({ meta: it.json ?? null }));
      const rig = new WorksRig(site, echo as unknown as Service);
      // A busy machine may keep a bridge silent for longer than these limits.
      for (const work of Object.values(works)) await rig.worksAgain(work, "the start");
      return rig;
    } catch (error) {
      await site[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Until nothing is left of a work, the work succeeds, and nothing is left of that. */
  async worksAgain(work: Work, where: string, more: readonly string[] = []): Promise<void> {
    await this.isClean(where);
    await until(`the next attempt succeeds after ${where}`, () =>
      work(this.site).then(
        () => true,
        (error) => {
          assert.ok(isEnd(error) || more.includes(error.code), `${where}: ${error}`);
          return false;
        },
      ),
    );
    await this.isClean(where);
  }

  /** Until only what the rig made is left. */
  async isClean(where: string): Promise<void> {
    const { hubOfOne, hubOfOther } = this.site;
    await until(`nothing is left on machine "other" after ${where}`, async () => {
      const names = await namesOf(hubOfOther);
      // A finished copy stays, because its original is pinned.
      if (names.includes("array")) await hubOfOther.remove("array").catch(() => {});
      return names.length === 0;
    });
    await until(`nothing is left on machine "one" after ${where}`, async () => {
      const [array, offer = "", ...more] = await namesOf(hubOfOne);
      return array === "array" && offer.startsWith("echo:") && more.length === 0;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service.close().catch(() => {});
    await this.site[Symbol.asyncDispose]();
  }
}

async function namesOf(hub: Hub): Promise<string[]> {
  return (await hub.list()).map(({ name }) => name).sort();
}
