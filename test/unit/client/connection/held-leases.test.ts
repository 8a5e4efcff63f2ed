import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { HeldLeases } from "../../../../src/client/connection/held-leases.js";
import type { HubConnection } from "../../../../src/client/connection/hub-connection.js";

const deadline = new Deadline("restore", {}, Number.POSITIVE_INFINITY);

/**
 * Restores leases 1 and 2 on a connection that accepts everything. Lease 1's memory cannot be
 * exported.
 * @returns the requests
 */
async function restored(failure: CudaIpcError): Promise<unknown[]> {
  const named: unknown[] = [];
  const leases = new HeldLeases();
  const bring = () => {
    throw failure;
  };
  leases.add({ lease: 1, object: 10, access: "owner", memory: { bring, close: () => {} } });
  leases.add({
    lease: 2,
    object: 20,
    access: "read",
    memory: { bring: () => [], close: () => {} },
  });
  const request = (
    op: string,
    { lease }: { lease: number },
    _: Deadline,
    fds: readonly unknown[],
  ) => {
    named.push([op, lease, fds.length]);
    return Promise.resolve({});
  };
  const connection = { request, endReason: undefined } as unknown as HubConnection;
  assert.equal(await leases.restore(connection, deadline), 0);
  return named;
}

describe("held leases", () => {
  it("are restored without memory that can no longer be exported, with a warning", async () => {
    const warning = once(process, "warning");
    assert.deepEqual(await restored(new CudaIpcError("SYSTEM_ERROR", "the GPU has failed")), [
      ["restore", 1, 0],
      ["restore", 2, 0],
    ]);
    const [{ name, message }] = (await warning) as [Error];
    assert.equal(name, "CudaIpcReconnect");
    assert.match(message, /the GPU has failed/);
  });

  it("are restored without closed memory, and later if descriptors are missing", async () => {
    assert.equal((await restored(new CudaIpcError("CLOSED", "closed"))).length, 2);
    await assert.rejects(restored(new CudaIpcError("TOO_MANY_FDS", "full")), (error) =>
      hasCode(error, "TOO_MANY_FDS"),
    );
  });
});
