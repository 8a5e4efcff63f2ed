/**
 * Each system call of a hub fails in turn, with each errno that it can give: whoever asked is told or loses its connection, nobody else
 * notices, nothing is left, and the hub goes on.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HubSite } from "../support/hub-site.js";
import { checkLeaks } from "../support/leak-check.js";
import { sweepSystemCalls } from "../support/system-call-sweep.js";

interface Request {
  readonly deed: string;
  /** What the client has done before. */
  readonly before: readonly string[];
  /** Calls that have to be among those that failed. */
  readonly calls: readonly string[];
}

const requests: readonly Request[] = [
  { deed: "connect", before: [], calls: ["accept4", "getsockopt", "recvmsg", "sendmsg"] },
  { deed: "create", before: ["connect"], calls: ["recvmsg", "fstatSync", "writeSync", "sendmsg"] },
  { deed: "publish", before: ["connect"], calls: ["recvmsg", "writeSync", "sendmsg"] },
  { deed: "open", before: ["connect", "publish"], calls: ["open", "sendmsg", "close"] },
  { deed: "createTimeline", before: ["connect"], calls: ["recvmsg", "sendmsg"] },
  { deed: "openTimeline", before: ["connect", "createTimeline"], calls: ["open", "sendmsg", "close"] },
  { deed: "createBundle", before: ["connect"], calls: ["fstatSync", "sendmsg"] },
  { deed: "openBundle", before: ["connect", "bundle"], calls: ["open", "sendmsg", "close"] },
  { deed: "giveUp", before: ["connect"], calls: ["recvmsg", "sendmsg"] },
  { deed: "ask", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  { deed: "remove", before: ["connect", "publish"], calls: ["recvmsg", "sendmsg"] },
  { deed: "close", before: ["connect", "publish", "open", "createTimeline"], calls: ["recvmsg", "close"] },
  // WHY no mapping: what ends with a session may end once its client has gone. `close` ends the same, and the death of a client.
  { deed: "leave", before: ["connect", "publish", "open", "createTimeline"], calls: ["recvmsg", "sendmsg", "close"] },
];

/** What a client whose request met the failure may be told. */
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

describe("a system call that fails in a hub", () => {
  const site = new HubSite();
  checkLeaks(() => site.close());

  for (const { deed, before, calls } of requests) {
    it(`is told to who asked for ${deed}, and to nobody else`, async () => {
      const failed = await sweepSystemCalls(
        async ({ failing }) => {
          await site.prepare(before);
          const { code, message } = await failing(() => site.tell(deed));
          assert.ok(TOLD.has(code), `${code}: ${message}`);
        },
        { check: (result) => site.check(result) },
      );
      for (const call of calls) assert.ok(failed.has(call), `${call} is not among ${[...failed].join(", ")}`);
    });
  }
});
