// Sends one kind of hostile message to a hub, checks each answer, and prints how many it sent.
// Arguments: socket, kind, seed.
import assert from "node:assert/strict";
import { isErrorCode } from "../../../../src/base/error-codes.js";
import { hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { createConstantFile, createMemoryFile } from "../../../../src/os/memory-file.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { argument, say, told } from "../../../support/actor-side.js";
import { MessageMutations } from "../../../support/message-mutations.js";
import {
  fdCountOf,
  gpuArray,
  hostArray,
  mayEndOthers,
  requests,
} from "../../../support/messages.js";
import { OddFds } from "../../../support/odd-fds.js";
import { nightly, Random } from "../../../support/random.js";
import { RawClient, type RawReply } from "../../../support/raw-client.js";
import { until } from "../../../support/until.js";

const socketPath = argument(0);
const random = new Random(Number(argument(2)));
const MUTATED = nightly ? 60_000 : 3_000;
const LARGE = 2_000;
const SILENT = 200;
/** Connections at a time. The hub's accept queue holds more. */
const BATCH = 64;

const encoded = requests.map((request) => Buffer.from(JSON.stringify(request)));
const HELLO = Buffer.from(
  JSON.stringify({ v: 1, id: 1, op: "hello", client: { version: "0", program: "hostile" } }),
);
const BYE = Buffer.from(JSON.stringify({ v: 1, id: 1_000_000, op: "bye" }));

/** Connections that stay until this process is killed. */
const kept: RawClient[] = [];
using odd = new OddFds();
using memory = createMemoryFile("memory", 4096);
using index = createConstantFile("index", Buffer.alloc(200, " "));

/** Sends if there is room. Also returns true after the hub hung up, which the next reply shows. */
function trySend(client: RawClient, bytes: Uint8Array, fds: readonly OwnedFd[] = []): boolean {
  try {
    return client.socket.trySend(bytes, fds);
  } catch (error) {
    if (hasCode(error, "PEER_GONE")) return true;
    throw error;
  }
}

/** Polls often at first, because the hub mostly takes a message sooner than `until` polls. */
async function taken(
  client: RawClient,
  bytes: Uint8Array,
  fds: readonly OwnedFd[] = [],
): Promise<void> {
  let asked = 0;
  const condition = () => receive(client).end || trySend(client, bytes, fds);
  while (!condition()) {
    asked += 1;
    if (asked === 200) return until("the hub takes a message", condition);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Reports progress, so that the test does not time out on the whole. */
function saySent(sent: number, end: boolean): void {
  say({ sent, end });
}

/** Receives and checks all replies so far. `end` is true if the hub has hung up. */
function receive(client: RawClient): { replies: RawReply[]; end: boolean } {
  const replies: RawReply[] = [];
  for (;;) {
    const packet = client.socket.tryReceive();
    if (packet === undefined || packet === "end") return { replies, end: packet === "end" };
    for (const fd of packet.fds) fd.close();
    const reply = JSON.parse(Buffer.from(packet.bytes).toString()) as RawReply;
    const code = reply.error?.code ?? "";
    assert.ok(reply.ok || (isErrorCode(code) && code !== "SYSTEM_ERROR"), JSON.stringify(reply));
    replies.push(reply);
  }
}

async function replies(client: RawClient): Promise<RawReply[]> {
  const all: RawReply[] = [];
  await until("the hub hangs up", () => {
    const { replies, end } = receive(client);
    all.push(...replies);
    return end;
  });
  return all;
}

/**
 * Sends each frame on its own connection, between hello and bye, with the descriptors that it
 * needs.
 */
async function exchange(
  frames: readonly Frame[],
  judge: (replies: RawReply[], frame: Frame) => void,
): Promise<number> {
  for (let at = 0; at < frames.length; at += BATCH) {
    const batch = frames.slice(at, at + BATCH);
    const clients = await Promise.all(batch.map(() => RawClient.connect(socketPath, false)));
    for (const client of clients) assert.ok(trySend(client, HELLO));
    for (const [place, { bytes, fds }] of batch.entries()) {
      const client = clients[place] as RawClient;
      // WHY awaited: a hub takes descriptors only once it has accepted the connection.
      assert.ok((await client.reply()) !== "end");
      for (const [part, attached] of [[bytes, fds] as const, [BYE, []] as const]) {
        assert.ok(trySend(client, part, attached));
      }
    }
    for (const [place, client] of clients.entries()) {
      judge(await replies(client), batch[place] as Frame);
      client.socket.close();
    }
    saySent(at, false);
  }
  return frames.length;
}

interface Frame {
  readonly bytes: Uint8Array;
  readonly fds: readonly OwnedFd[];
}

function fdsOf(request: (typeof requests)[number]): OwnedFd[] {
  return [memory, index].slice(0, fdCountOf(request));
}

/** Sends proper prefixes of JSON objects. None is valid JSON, so all are refused alike. */
function sendPrefixes(): Promise<number> {
  const frames = encoded.flatMap((bytes, at) =>
    Array.from({ length: bytes.length - 1 }, (_, cut) => ({
      bytes: bytes.subarray(0, cut + 1),
      fds: fdsOf(requests[at] as (typeof requests)[number]),
    })),
  );
  return exchange(frames, ([refusal, ...more], { bytes }) => {
    assert.deepEqual(
      [refusal?.id, refusal?.error?.code, more],
      [0, "INVALID_MESSAGE", []],
      bytes.toString(),
    );
  });
}

function sendReplaced(): Promise<number> {
  const frames = encoded.flatMap((bytes, at) =>
    Array.from(bytes, (byte, place) => {
      const changed = Buffer.from(bytes);
      changed[place] = (byte + 1 + random.below(255)) % 256;
      return { bytes: changed, fds: fdsOf(requests[at] as (typeof requests)[number]) };
    }),
  );
  const kind = frames.filter(({ bytes }) => !mayEndOthers(bytes));
  return exchange(kind, (replies) => {
    assert.ok(replies.length >= 1, JSON.stringify(replies));
  });
}

async function sendMutated(): Promise<number> {
  const numbers = Array.from({ length: 80 }, (_, number) => number + 1);
  const mutations = new MessageMutations(random, requests, {
    names: ["frame", "a", "b", "c"],
    numbers,
  });
  let client = await RawClient.connect(socketPath);
  for (let count = 0; count < MUTATED; count += 1) {
    const sample = random.pick(requests);
    const bytes = mutations.next(random.pick([0.02, 0.3]), sample);
    if (bytes.byteLength === 0 || mayEndOthers(bytes)) continue;
    let fds = fdsOf(sample);
    if (random.chance(0.2)) {
      const pool = [...odd.all, client.socket.fd, memory, index];
      fds = Array.from({ length: random.pick([fds.length, 1, 2, 3, 40]) }, () => random.pick(pool));
    }
    await taken(client, bytes, fds);
    if (count % 1000 === 0) saySent(count, false);
    if (count % 32 === 0) await new Promise((resolve) => setImmediate(resolve));
    // WHY only one look: the hub may hang up a little later, and the next message finds that.
    if (receive(client).end) {
      client.socket.close();
      client = await RawClient.connect(socketPath);
    }
  }
  return MUTATED;
}

/** Some have descriptors, too, which the hub must not keep. */
async function sendSizes(): Promise<number> {
  const ofSize = (byteLength: number) =>
    Buffer.from('{"v":1,"id":2,"op":"status"}'.padEnd(byteLength, " "));
  const { messageBytesMax } = limits;
  const wanted: readonly [number, number, string | undefined, boolean][] = [
    [0, 1, "INVALID_MESSAGE", true],
    [1, 3, "INVALID_MESSAGE", true],
    [messageBytesMax, 0, undefined, false],
    [messageBytesMax, 2, "INVALID_MESSAGE", false],
    [messageBytesMax + 1, 0, "MESSAGE_TOO_LARGE", true],
    [messageBytesMax + 1, 253, "MESSAGE_TOO_LARGE", true],
  ];
  for (const [byteLength, fdCount, code, ends] of wanted) {
    using client = await RawClient.connect(socketPath);
    const fds = Array.from({ length: fdCount }, () => memory);
    const bytes = ofSize(byteLength).subarray(0, byteLength);
    assert.equal(client.sendUnchecked(bytes, fds), byteLength);
    if (!ends) trySend(client, BYE);
    const [reply, ...more] = await replies(client);
    assert.deepEqual(
      [reply?.error?.code, more.length],
      [code, ends ? 0 : 1],
      `${byteLength} bytes, ${fdCount} fds`,
    );
  }
  return wanted.length;
}

/**
 * Sends a socket through itself, and two through each other, also as memory that a hub cannot
 * inspect.
 */
async function sendSockets(): Promise<number> {
  const one = await RawClient.connect(socketPath);
  const other = await RawClient.connect(socketPath);
  for (const [client, fd] of [
    [one, one.socket.fd] as const,
    [one, other.socket.fd] as const,
    [other, one.socket.fd] as const,
  ]) {
    for (const descriptor of [hostArray, gpuArray]) {
      const { error } = await client.ask(
        { op: "create", name: "socket", lifetime: "pinned", descriptor },
        [fd],
      );
      assert.equal(error?.code, "INVALID_DESCRIPTOR");
    }
  }
  one.socket.close();
  kept.push(other);
  return 3;
}

/**
 * Causes replies with descriptors and does not read them: the hub keeps duplicates as long as it
 * keeps the client.
 */
async function readNothing(): Promise<number> {
  const client = await RawClient.connect(socketPath);
  const { result } = await client.ask(
    { op: "create", name: "unread", lifetime: "held", descriptor: hostArray },
    [memory],
  );
  assert.ok((await client.ask({ op: "publish", object: result?.object })).ok);
  kept.push(client);
  const other = await RawClient.connect(socketPath);
  kept.push(other);
  let sent = 0;
  const send = () => {
    const request = {
      v: 1,
      id: sent + 100,
      op: "open",
      name: "unread",
      access: "read-write",
      wait: true,
    };
    const taken = client.socket.trySend(Buffer.from(JSON.stringify(request)));
    if (taken) sent += 1;
    return taken;
  };
  // Twice: the hub takes turns, so it has finished one turn when it answers another client.
  for (let refused = 0; refused < 2; ) {
    while (send()) refused = 0;
    assert.ok((await other.ask({ op: "status" })).ok, "the hub serves others meanwhile");
    refused += 1;
  }
  return sent;
}

async function sayNothing(): Promise<number> {
  while (kept.length < SILENT) kept.push(await RawClient.connect(socketPath, false));
  return SILENT;
}

async function sendLarge(): Promise<number> {
  const client = await RawClient.connect(socketPath);
  for (let count = 0; count < LARGE; count += 1) {
    const text = `{"v":1,"id":${count + 2},"op":"status"}`.padEnd(limits.messageBytesMax, " ");
    await taken(client, Buffer.from(text));
    if (count % 200 === 0) saySent(count, false);
  }
  await taken(client, BYE);
  const left = await replies(client);
  assert.ok(left.at(-1)?.ok, "the hub took them all");
  return LARGE * limits.messageBytesMax;
}

const kinds: Readonly<Record<string, () => Promise<number>>> = {
  prefixes: sendPrefixes,
  replaced: sendReplaced,
  mutated: sendMutated,
  sizes: sendSizes,
  sockets: sendSockets,
  unread: readNothing,
  silent: sayNothing,
  large: sendLarge,
};
const kind = kinds[argument(1)];
assert.ok(kind !== undefined);
saySent(await kind(), true);
await told();
