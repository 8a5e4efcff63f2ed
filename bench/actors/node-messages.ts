// Messages of 64 bytes between a process and its child by `process.send`, one way ("throughput") or
// round trip ("round-trip"), like the channel actors. The role is the serialization: "json" or
// "advanced". One way, a sample is the mean of CHUNK messages, at the child.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { extra, role, Samples, total, warmUp } from "./actor.js";

const CHUNK = 1024;
/** How many messages are given to Node before it has sent the last one of them. */
const BATCH = 256;
const MESSAGE_BYTES = 64;
const [mode = "throughput", side = "parent"] = extra;

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
  const args = [...process.argv.slice(2, 5), mode, "child"];
  const serialization = role === "json" ? "json" : "advanced";
  const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
  const child = fork(fileURLToPath(import.meta.url), args, { serialization, stdio: [...stdio] });
  const ended = once(child, "exit");
  await once(child, "message");
  await (mode === "throughput" ? write(child) : ask(child));
  child.disconnect();
  const [code] = await ended;
  if (code !== 0) throw new Error(`The child ended with ${code}`);
}

async function write(child: ChildProcess): Promise<void> {
  const allReceived = once(child, "message");
  for (let i = 0; i < total; i += BATCH) {
    await new Promise<void>((resolve, reject) => {
      const end = Math.min(i + BATCH, total);
      for (let number = i; number < end - 1; number += 1) child.send(messageOf(number));
      child.send(messageOf(end - 1), (error) => (error === null ? resolve() : reject(error)));
    });
  }
  await allReceived;
}

async function ask(child: ChildProcess): Promise<void> {
  const samples = new Samples();
  for (let i = 0; i < total; i += 1) {
    const startMs = performance.now();
    const answered = new Promise<Message>((resolve) =>
      child.once("message", resolve as (message: unknown) => void),
    );
    child.send(messageOf(i));
    const answer = numberIn(await answered);
    if (i >= warmUp) samples.add((performance.now() - startMs) * 1000);
    if (answer !== i) throw new Error(`Answer ${answer}, wanted ${i}`);
  }
  samples.print(`node-${role}-round-trip`);
}

function read(): void {
  const samples = new Samples();
  let [received, startMs] = [0, 0];
  process.on("message", (message: Message) => {
    if (numberIn(message) !== received)
      throw new Error(`Message ${received} says ${numberIn(message)}`);
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
}

if (side === "child") {
  if (mode === "throughput") read();
  else process.on("message", (message) => process.send?.(message));
  process.send?.("ready");
} else {
  await parent();
}
