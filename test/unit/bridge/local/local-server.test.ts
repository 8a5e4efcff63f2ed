import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { BridgeClaim, LocalServer } from "../../../../src/bridge/local/local-server.js";
import type { FarWorkers } from "../../../../src/bridge/services/far-workers.js";
import type { FetchTable, PullOptions } from "../../../../src/bridge/transfer/fetch-table.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { TestFolder } from "../../../support/test-folder.js";
import { until } from "../../../support/until.js";

const status = {
  v: 1,
  ok: true,
  machine: "one",
  namesAwayMs: null,
  ucx: "1.22.0",
  transports: [],
  machines: [],
  machinesLeftOut: 0,
  fetches: [],
  services: [],
  servicesLeftOut: 0,
  channels: [],
  channelsLeftOut: 0,
  refused: [],
  names: [],
  next: null,
} as const;

describe("LocalServer", () => {
  let folder: TestFolder;
  let claim: BridgeClaim;
  let server: LocalServer;
  let answer: (options: PullOptions) => ReturnType<FetchTable["pull"]>;

  beforeEach(() => {
    folder = new TestFolder();
    claim = BridgeClaim.make(join(folder.path, "bridge"));
    const pull: FetchTable["pull"] = (_name, options) => answer(options);
    const fetches = { pull } as unknown as FetchTable;
    server = new LocalServer(claim, {
      fetches,
      workers: {} as FarWorkers,
      status: () => structuredClone(status) as never,
    });
  });
  afterEach(() => {
    server.close();
    claim.release();
    folder[Symbol.dispose]();
  });

  function ask(socket: SeqpacketSocket, message: object): boolean {
    return socket.trySend(Buffer.from(JSON.stringify({ v: 1, ...message })));
  }

  async function heard(socket: SeqpacketSocket): Promise<string> {
    let text: string | undefined;
    await until("the server answers", () => {
      const packet = socket.tryReceive();
      if (packet !== undefined) text = packet === "end" ? "end" : String(Buffer.from(packet.bytes));
      return text !== undefined;
    });
    return text ?? "";
  }

  it("serves more processes than its limit one after another, whatever their pulls come to", async () => {
    answer = () => Promise.reject(new CudaIpcError("NOT_FOUND", "Cannot fetch: there is none"));
    for (let i = 0; i <= limits.peerClientsMax; i += 1) {
      const socket = SeqpacketSocket.connect(claim.path);
      ask(socket, { op: "pull", name: "x", wait: false });
      assert.match(await heard(socket), /NOT_FOUND/, `pull ${i}`);
      socket.close();
    }
  });
});
