/**
 * Loaded into the bridges of tests before their own code. Sets shorter limits, and makes a bridge
 * stop or die at a given step. Steps are what it asks and answers over links, NATS and its hub.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { defaults } from "../../../src/base/limits.js";
import { holdFile, type NumberedOrder, orderFile, reachedFile, removed } from "./bridge-orders.js";

/** Pieces that are sent before the rest is held back. */
const FIRST_PIECES = 2;

const { CUDA_IPC_TEST_LIMITS: limits = "{}", CUDA_IPC_TEST_ORDERS: folder } = process.env;
// WHY before all else: some modules compute with limits while they load.
Object.assign(defaults, JSON.parse(limits));
if (folder !== undefined) await watchSteps(folder);

async function watchSteps(folder: string): Promise<void> {
  let order: NumberedOrder | undefined;
  let steps = 0;
  const reach = (step: string): void => {
    const found = tryRead(orderFile(folder));
    if (found?.number !== order?.number) steps = 0;
    order = found;
    if (order === undefined) return;
    steps += 1;
    if (steps !== order.at) return;
    const { signal } = order;
    // WHY not by force: if the order is not there any more, the test has taken it back.
    if (!removed(orderFile(folder))) return;
    writeFileSync(reachedFile(folder), step);
    process.kill(process.pid, signal);
  };
  /** Makes two steps of each call of a method: before it begins, and after its answer. */
  const watch = (of: object, method: string, nameOf: (given: readonly unknown[]) => string) => {
    const methods = of as Record<string, (...given: unknown[]) => Promise<unknown>>;
    const original = methods[method];
    if (original === undefined) throw new Error(`there is no method ${method}`);
    methods[method] = async function (...given) {
      const name = nameOf(given);
      reach(`before ${name}`);
      try {
        return await original.apply(this, given);
      } finally {
        reach(`after ${name}`);
      }
    };
  };
  const opOf = ([call]: readonly unknown[]) => (call as { readonly op: string }).op;
  const [{ MachineLink }, { ExportServer }, { NatsStore }, { Hub }] = await Promise.all([
    import("../../../src/bridge/link/machine-link.js"),
    import("../../../src/bridge/transfer/export-server.js"),
    import("../../../src/bridge/names/nats-store.js"),
    import("../../../src/client/hub.js"),
  ]);
  holdPieces(folder, ExportServer, (given) => opOf(given) === "send");
  watch(MachineLink.prototype, "call", (given) => `the call ${opOf(given)}`);
  watch(ExportServer.prototype, "answer", (given) => `the answer to ${opOf(given)}`);
  watch(NatsStore.prototype, "ask", () => "the question over NATS");
  for (const method of ["openAny", "openChannel", "putReplica", "createCarriedChannel"])
    watch(Hub.prototype, method, () => `${method} of the hub`);
}

/** Answers no request for a piece but the first ones while the test holds them back. */
function holdPieces(
  folder: string,
  { prototype: server }: { readonly prototype: { answer(...given: never[]): Promise<unknown> } },
  isForPiece: (given: readonly unknown[]) => boolean,
): void {
  let hold: string | undefined;
  let pieces = 0;
  const holds = () => {
    try {
      return readFileSync(holdFile(folder), "utf8");
    } catch {
      return undefined;
    }
  };
  const { answer } = server;
  server.answer = async function (...given) {
    if (isForPiece(given)) {
      if (holds() !== hold) pieces = 0;
      hold = holds();
      pieces += 1;
      while (hold !== undefined && pieces > FIRST_PIECES && holds() === hold) await setTimeout(5);
    }
    return answer.apply(this, given);
  };
}

function tryRead(path: string): NumberedOrder | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
