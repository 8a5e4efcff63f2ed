/**
 * Each system call of a hub fails in turn: while a client ends, and while the hub starts and stops.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { HubServer } from "../../src/hub/server/hub-server.js";
import { HubSite } from "../support/hub-site.js";
import { checkLeaks } from "../support/leak-check.js";
import { sweepSystemCalls } from "../support/system-call-sweep.js";

describe("a system call that fails while a client ends, or while a hub starts or stops", () => {
  const site = new HubSite();
  checkLeaks(() => site.close());

  it("does not keep the hub from releasing the leases of an ended client", async () => {
    const failed = await sweepSystemCalls(
      async ({ failing }) => {
        await site.prepare(["connect", "publish", "open", "createTimeline"]);
        await failing(() => site.kill());
      },
      { check: (result) => site.check(result) },
    );
    for (const call of ["recvmsg", "close"]) assert.ok(failed.has(call), call);
  });

  it("fails the start of a hub, and the next one starts", async () => {
    const failed = await sweepSystemCalls(
      async ({ failing }) => {
        const server = await failing(() => HubServer.start({ socket: site.socket }));
        server.stop();
      },
      {
        check: ({ failure }) => {
          const kept = failure?.call.name === "unlinkSync" || failure?.call.name === "lstatSync";
          assert.ok(kept || !existsSync(site.socket), `${failure?.description} left a socket`);
          HubServer.start({ socket: site.socket }).stop();
        },
      },
    );
    for (const call of ["open", "flock", "socket", "bind", "listen", "chmodSync", "lstatSync"])
      assert.ok(failed.has(call), call);
  });

  it("fails the stop of a hub, which still ends", async () => {
    const failed = await sweepSystemCalls(
      async ({ failing }) => {
        await site.prepare(["connect", "publish", "open", "createTimeline"]);
        const { server } = site;
        await failing(() => server.stop());
      },
      {
        check: async () => {
          await site.server.ended;
          HubServer.start({ socket: site.socket }).stop();
          assert.ok(!existsSync(site.socket), "the socket is removed");
          await site.close();
        },
      },
    );
    for (const call of ["lstatSync", "unlinkSync", "close"]) assert.ok(failed.has(call), call);
  });
});
