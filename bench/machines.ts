/**
 * Copies an array from one hub to another through two bridges, over UCX by tcp on this host.
 * Compares with a plain socket, and with a copy in memory.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect as connectSocket } from "node:net";
import { skipWithoutEngines } from "../test/support/machines/engines.js";
import { TestMachine } from "../test/support/machines/test-machine.js";
import { TestNats } from "../test/support/machines/test-nats.js";
import type { Row } from "./measure.js";

const MiB = 1024 * 1024;
const BYTES = 256 * MiB;
const ROUNDS = 5;

export async function machines(): Promise<Row[]> {
  const what = `an array of ${BYTES / MiB} MiB from machine to machine, best of ${ROUNDS}`;
  if (skipWithoutEngines !== false)
    return [{ what, value: Number.NaN, unit: "GB/s", missing: skipWithoutEngines }];
  let fetchMs = Number.POSITIVE_INFINITY;
  let socketMs = Number.POSITIVE_INFINITY;
  let copyMs = Number.POSITIVE_INFINITY;
  await using nats = await TestNats.start();
  await using one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
  await using other = await TestMachine.start("other", nats);
  await using hubOfOne = await one.connect();
  await using hubOfOther = await other.connect();
  const values = new Uint8Array(BYTES).fill(1);
  using _original = await hubOfOne.put("large", values);
  await one.says('announced: "large"');
  // In turns, so that what else the machine does hits all of them.
  for (let round = 0; round < ROUNDS; round += 1) {
    fetchMs = Math.min(
      fetchMs,
      await timed(async () => (await hubOfOther.open("large", { from: "any" })).close()),
    );
    await hubOfOther.remove("large");
    socketMs = Math.min(socketMs, await socketOnce());
    const target = new Uint8Array(BYTES);
    copyMs = Math.min(copyMs, await timed(async () => target.set(values)));
  }
  const rate = (ms: number) => BYTES / ms / 1e6;
  return [
    { what: "memory to new memory of one process", value: rate(copyMs), unit: "GB/s" },
    { what: "a socket of Node.js to new memory, by tcp", value: rate(socketMs), unit: "GB/s" },
    {
      what,
      value: rate(fetchMs),
      unit: "GB/s",
      comparedWith: "the socket's rate",
      ratio: socketMs / fetchMs,
    },
  ];
}

async function timed(once: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await once();
  return performance.now() - startMs;
}

/** Milliseconds until another process has sent the bytes and they are in memory. */
async function socketOnce(): Promise<number> {
  const sender = spawn(process.execPath, ["-e", SENDER], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(sender.stdout.setEncoding("utf8"), "data");
  const milliseconds = await timed(() => receive(Number(line)));
  await once(sender, "exit");
  return milliseconds;
}

async function receive(port: number): Promise<void> {
  const target = new Uint8Array(BYTES);
  let received = 0;
  const onread = {
    buffer: Buffer.alloc(4 * MiB),
    callback: (byteLength: number, bytes: Uint8Array) => {
      target.set(bytes.subarray(0, byteLength), received);
      received += byteLength;
      return true;
    },
  };
  const socket = connectSocket({ port, host: "127.0.0.1", onread });
  await once(socket, "close");
  if (received !== BYTES) throw new Error(`${received} bytes came, wanted ${BYTES}`);
}

const SENDER = `
  const bytes = Buffer.alloc(${BYTES}, 1);
  const server = require("node:net").createServer((socket) => {
    server.close();
    socket.end(bytes);
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`;
