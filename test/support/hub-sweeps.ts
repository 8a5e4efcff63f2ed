/** Makes each system call of a hub fail in turn while a client sends a request. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HubSite } from "./hub-site.js";
import { checkLeaks } from "./leak-check.js";
import { sweepSystemCalls } from "./system-call-sweep.js";

export interface HubRequest {
  readonly deed: string;
  /** Commands that the client runs before the request. */
  readonly before: readonly string[];
  /** Calls that must be among those that failed. */
  readonly calls: readonly string[];
}

/** The codes that a client may get for the request that met the failure. */
const TOLD: ReadonlySet<string | null> = new Set([
  null,
  "HUB_GONE",
  "DISK_FULL",
  "HUB_UNAVAILABLE",
  "TOO_MANY_FDS",
  "OUT_OF_MEMORY",
  "SYSTEM_ERROR",
  "PERMISSION_DENIED",
]);

/** WHY in several files: each sweep takes some seconds, and a file has its time limit. */
export function describeSweeps(title: string, requests: readonly HubRequest[]): void {
  describe(title, () => {
    const site = new HubSite();
    checkLeaks(() => site.close());

    for (const { deed, before, calls } of requests) {
      it(`is reported only to the client that asked for ${deed}`, async () => {
        const failed = await sweepSystemCalls(
          async ({ failing }) => {
            await site.prepare(before);
            const { code, message } = await failing(() => site.tell(deed));
            assert.ok(TOLD.has(code), `${code}: ${message}`);
          },
          { check: (result) => site.check(result) },
        );
        for (const call of calls)
          assert.ok(failed.has(call), `${call} is not among ${[...failed].join(", ")}`);
      });
    }
  });
}
