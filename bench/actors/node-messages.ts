// Messages of 64 bytes between a process and its child through Node's own channel (`process.send`), one way and there and back, as the
// actors of channels send them. The role is the serialization: "json" or "advanced". One way a sample is the mean of CHUNK messages, at
// the child.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { iterations, role, Samples, total, warmUp } from "./actor.js";

const CHUNK = 1024;
/** So many are handed to Node before the last of them is on its way. */
const BATCH = 256;
const MESSAGE_BYTES = 64;
const isChild = process.argv[5] === "child";
const roundTrips = Math.ceil(total / 10);

type Message = string | Uint8Array;

function messageOf(value: number): Message {
  if (role === "json") return String(value).padStart(MESSAGE_BYTES);
  const bytes = Buffer.alloc(MESSAGE_BYTES);
  bytes.writeUInt32LE(value, 0);
  return bytes;
}

function numberIn(message: Message): number {
  return typeof message === "string" ? Number(message) : Buffer.from(message).readUInt32LE(0);
}

async function parent(): Promise<void> {
  const self = fileURLToPath(import.meta.url);
  const args = [...process.argv.slice(2, 5), "child"];
  const serialization = role === "json" ? "json" : "advanced";
  const child = fork(self, args, { serialization, stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await once(child, "message");
  for (let i = 0; i < total; i += BATCH) {
    await new Promise<void>((resolve, reject) => {
      const end = Math.min(i + BATCH, total);
      for (let value = i; value < end - 1; value += 1) child.send(messageOf(value));
      child.send(messageOf(end - 1), (error) => (error === null ? resolve() : reject(error)));
    });
  }
  await once(child, "message");
  await ask(child);
  const ended = once(child, "exit");
  child.disconnect();
  const [code] = await ended;
  if (code !== 0) throw new Error(`The child ended with ${code}`);
}

async function ask(child: ChildProcess): Promise<void> {
  const samples = new Samples();
  for (let i = 0; i < roundTrips; i += 1) {
    const startMs = performance.now();
    const answered = new Promise<Message>((resolve) => child.once("message", resolve as (message: unknown) => void));
    child.send(messageOf(i));
    const answer = numberIn(await answered);
    if (i >= roundTrips / 10) samples.add((performance.now() - startMs) * 1000);
    if (answer !== i) throw new Error(`Answer ${answer}, wanted ${i}`);
  }
  samples.print(`node-${role}-round-trip`);
}

function child(): void {
  const samples = new Samples();
  let [received, startMs] = [0, 0];
  process.on("message", (message: Message) => {
    if (received >= total) {
      process.send?.(message);
      return;
    }
    if (numberIn(message) !== received) throw new Error(`Message ${received} says ${numberIn(message)}`);
    received += 1;
    if (received % CHUNK === 0) {
      const nowMs = performance.now();
      if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
      startMs = received > warmUp ? nowMs : 0;
    }
    if (received < total) return;
    samples.print(`node-${role}-throughput`);
    process.send?.("all received");
  });
  process.send?.("ready");
}

if (iterations < 2 * CHUNK) throw new Error(`${iterations} iterations make no sample`);
if (isChild) child();
else await parent();
