// The writer or the reader of a channel of 64-byte messages, which moves as many as it is told and
// says what they cost. Where it has to wait it spins. bench/hub/watched-channel.ts gives the orders.
import { type ChannelReader, type ChannelWriter, connect } from "../../src/index.js";
import { serve } from "../hub/helper-side.js";
import { loanSpinning, MESSAGE_BYTES, nextSpinning, numberOf, setNumber } from "./channel-side.js";

let writer: ChannelWriter<"uint8"> | undefined;
let reader: ChannelReader | undefined;
/** The number of the next message, on either side. */
let next = 0;

function write(count: number): void {
  if (writer === undefined) throw new Error("create first");
  for (const end = next + count; next < end; next += 1) {
    const slot = loanSpinning(writer);
    setNumber(slot.bytes, next);
    slot.commit();
  }
}

function read(count: number): void {
  if (reader === undefined) throw new Error("open first");
  for (const end = next + count; next < end; next += 1) {
    const slot = nextSpinning(reader);
    const number = numberOf(slot.bytes);
    if (number !== next) throw new Error(`Message ${next} says ${number}`);
    slot.release();
  }
}

/** CPU time of the whole process, in microseconds. */
function costOf(work: () => void): { cpuUs: number; wallUs: number } {
  const startMs = performance.now();
  const before = process.resourceUsage();
  work();
  const after = process.resourceUsage();
  const cpuUs = after.userCPUTime - before.userCPUTime + after.systemCPUTime - before.systemCPUTime;
  return { cpuUs, wallUs: (performance.now() - startMs) * 1000 };
}

serve({
  async create({ socket, name, slots }: { socket: string; name: string; slots: number }) {
    const hub = await connect({ socket, device: "host", start: false });
    const shape = [MESSAGE_BYTES];
    writer = await hub.createChannel(name, { dtype: "uint8", shape, slots, whenFull: "wait" });
  },

  async open({ socket, name }: { socket: string; name: string }) {
    const hub = await connect({ socket, device: "host", start: false });
    reader = await hub.openChannel(name);
  },

  write: ({ count }: { count: number }) => costOf(() => write(count)),
  read: ({ count }: { count: number }) => costOf(() => read(count)),
});
