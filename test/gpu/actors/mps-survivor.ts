/**
 * Waits on cuda:0 in every possible way and prints that. After its context is lost, prints how each
 * wait ended, what later calls throw, what closing throws, and which files are still open.
 * Arguments: socket.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { arg, Module } from "../../../src/doors/kernels.js";
import { connectService, serve } from "../../../src/doors/service.js";
import { connect } from "../../../src/index.js";
import { kernelImage } from "../../conformance/kernel-image.js";
import { argument, say, told } from "../../support/actor-side.js";

interface End {
  readonly code: string;
  readonly message: string;
  readonly remedy: string;
  readonly atMs: number;
}

const ELEMENTS = 65_536;

function endOf(error: unknown): End {
  const { code = "none", message, remedy = "" } = error as Partial<End>;
  return { code, message: String(message), remedy, atMs: Date.now() };
}

/** Lists open files of these kinds, without their numbers. */
function openFiles(kinds: RegExp): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const file = readlinkSync(`/proc/self/fd/${fd}`);
      return kinds.test(file) ? [file.replace(/\d+/g, "N")] : [];
    } catch {
      return [];
    }
  });
}

const ours = /memfd:cuda-ipc|pidfd/;
/** The bells among them. A driver may have some, too. */
const events = /eventfd/;
const before = [openFiles(ours), openFiles(events)];
const hub = await connect({ socket: argument(0), start: false, device: "cuda:0" });
const device = hub.device();
const mine = String(process.pid);
const array = await hub.create(`array-${mine}`, { dtype: "int32", shape: [ELEMENTS] });
const module = Module.load(device, kernelImage);
const kernel = module.kernel("add");
const stuck = device.createStream();
const busy = device.createStream();
const gate = device.createTimeline();
const foreign = await hub.openTimeline("never");
const event = device.createEvent();
const shape = { dtype: "int32", shape: [16], slots: 2, readersMax: 1 } as const;
const quiet = await hub.createChannel(`quiet-${mine}`, shape);
const full = await hub.createChannel(`full-${mine}`, shape);
const late = await hub.createChannel(`late-${mine}`, shape);
const given = await hub.createChannel(`given-${mine}`, shape);
const [ofQuiet, ofFull, ofLate] = await Promise.all(
  ["quiet", "full", "late"].map((name) => hub.openChannel(`${name}-${mine}`)),
);
const ofGiven = await hub.openChannel(`given-${mine}`, { stream: busy });
if (ofQuiet === undefined || ofFull === undefined || ofLate === undefined)
  throw new Error("channels are missing");

const message = { dtype: "int32", shape: [16] } as const;
// Its handler ends when the client stops waiting.
const [service, spare] = await Promise.all(
  ["service", "spare"].map((name) =>
    serve(hub, `${name}-${mine}`, { request: message, reply: message }, ({ signal }) => {
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)),
      );
    }),
  ),
);
if (service === undefined || spare === undefined) throw new Error("services are missing");
// WHY "fail": with "retry" the search for another worker would also find the loss.
const client = connectService(hub, `service-${mine}`, { policy: "fail" });
const lateClient = connectService(hub, `spare-${mine}`);

await array.fill(0);
stuck.wait(gate, 1);
event.record(stuck);
while (full.tryLoan()?.commit() !== undefined);
(await late.loan({ stream: stuck })).commit({ stream: stuck });
given.tryLoan()?.commit();
// Held, so that a stream releases its slot when the reader is closed.
ofGiven.tryNext();

async function forEver(step: () => Promise<unknown>): Promise<never> {
  for (;;) {
    await step();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const zeros = new Int32Array(ELEMENTS);
const waits: Record<string, Promise<unknown>> = {
  "stream.synchronize": stuck.synchronize(),
  "event.synchronize": event.synchronize(),
  "timeline.wait, of its own": gate.wait(1),
  "timeline.wait, of another": foreign.wait(1),
  "reader.next, asleep": ofQuiet.next(),
  "reader.next, for data": ofLate.next(),
  "writer.loan, asleep": full.loan(),
  transfers: forEver(() => array.write(zeros)),
  launches: forEver(async () => {
    kernel.launch({ grid: 1, block: 32, args: [array, arg.u32(32), arg.u32(1)], stream: busy });
    await busy.synchronize();
  }),
  "client.request": client.request(undefined, { timeoutMs: 60_000 }),
  onLost: new Promise((_, reject) => device.onLost(reject)),
};
const names = Object.keys(waits);
const ends = Object.values(waits).map((wait) => wait.then(() => endOf({ code: "done" }), endOf));
// WHY: a call that has not begun to wait may be refused instead of ended.
while (service.running === 0) await new Promise((resolve) => setImmediate(resolve));
say({ waits: names, sharesContext: device.sharesContext });
const tellEnds = Promise.all(ends).then((found) => names.map((name, i) => [name, found[i]]));
say(await tellEnds);

// In sequence, because each call must fail at once.
const later: [string, End][] = [];
const attempt = async (name: string, call: () => unknown) => {
  try {
    await call();
    later.push([name, endOf({ code: "done", message: "it was done" })]);
  } catch (error) {
    later.push([name, endOf(error)]);
  }
};
await attempt("create an array", () =>
  hub.create(`later-${mine}`, { dtype: "int32", shape: [ELEMENTS] }),
);
await attempt("open an array", () => hub.open("pinned", { timeoutMs: 5000 }));
await attempt("create a stream", () => device.createStream());
await attempt("load a module", () => Module.load(device, kernelImage));
await attempt("launch", () =>
  kernel.launch({ grid: 1, block: 1, args: [array, arg.u32(1), arg.u32(1)], stream: busy }),
);
await attempt("wait by a stream", () => busy.wait(gate, 2));
await attempt("free memory", () => device.memoryInfo());
await attempt("read", () => array.read());
await attempt("request from a service", () => lateClient.request(undefined, { timeoutMs: 5000 }));
say(later);

const closing: string[] = [];
const closeAll = (things: readonly { close(): void }[]) => {
  for (const thing of things) {
    try {
      thing.close();
    } catch (error) {
      closing.push(`${thing.constructor.name}: ${String(error)}`);
    }
  }
};
closeAll([
  ofQuiet,
  ofFull,
  ofLate,
  ofGiven,
  quiet,
  full,
  late,
  given,
  event,
  gate,
  foreign,
  module,
  array,
]);
// Closed objects still check their streams on timers. They must report nothing there either.
for (let timers = 0; timers < 5; timers += 1)
  await new Promise((resolve) => setTimeout(resolve, 2));
closeAll([stuck, busy]);
const now = { timeoutMs: 100 };
for (const end of [client.close(), lateClient.close(), service.close(now), spare.close(now)]) {
  await end.catch((error: unknown) => closing.push(`service: ${String(error)}`));
}
await hub.close().catch((error: unknown) => closing.push(`hub: ${String(error)}`));
say({ closing, left: [openFiles(ours), openFiles(events)], before });
await told();
