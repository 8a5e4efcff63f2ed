/**
 * System S7 with more readers: one process writes to a channel, and three read every message in
 * place. One reader is slow and may be overtaken. Another is killed while it holds a slot. Streams
 * keep the order: on a GPU, no CPU waits between one message and the next.
 *
 *   npx cuda-ipc demo channel   with the package installed
 *   node examples/channel.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 65536 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  made a channel of 8 slots of int32[65536] on cuda:0
 *   4712  reads every message
 *   4713  reads slowly, and may be overtaken
 *   4714  reads, and will be killed
 *   4711  message 28 is refused: TIMEOUT: ... reader 1 (process 4714, ...) is 8 messages behind
 *   4711  killed process 4714, which held the slot of message 20
 *   4711  sent 200 messages, 52428800 bytes: the held slot came back
 *   4712  received 200 messages in order: every element verified
 *   4713  received 100 messages and missed 100: every element verified
 */
import { type ChannelReader, CudaIpcError, connect, DeviceArray, type Hub } from "cuda-ipc";
import type { Stream } from "cuda-ipc/interop";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, refused, run, say, verify } from "./program.ts";

const SLOTS = 8;
const MESSAGES = 200;
/** The message whose slot the killed reader holds. */
const HELD = 20;

const roles: Readonly<Record<string, string>> = {
  patient: "reads every message",
  slow: "reads slowly, and may be overtaken",
  doomed: "reads, and will be killed",
};

await run({ elements: 65_536 }, (options) =>
  options.role === "parent" ? write(options) : read(options),
);

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function write(options: Options): Promise<void> {
  const { elements } = options;
  const name = `channel-${process.pid}`;
  await using hub = await join(options);
  using writer = await hub.createChannel(name, { dtype: "int32", shape: [elements], slots: SLOTS });
  writer.device.prepareOperations();
  using stream = writer.device.createStream();
  say(`made a channel of ${SLOTS} slots of int32[${elements}] on ${writer.device.name}`);
  const start = (role: string) => new Child(import.meta.url, role, options, { args: [name] });
  using patient = start("patient");
  using slow = start("slow");
  using doomed = start("doomed");
  for (const reader of [patient, slow, doomed]) await reader.hear();

  const send = async (limit: { readonly timeoutMs: number }) => {
    using slot = await writer.loan({ stream, ...limit });
    await slot.array.iota(writer.committed * 1000, 1, { stream });
    slot.commit({ stream, meta: { number: writer.committed } });
  };
  const sendUntil = async (count: number) => {
    while (writer.committed < count) await patient.during(slow.during(send(LIMIT)));
  };
  await sendUntil(HELD + 1);
  await doomed.hear();
  // The ring comes around to the slot that the reader holds.
  await refused(`message ${HELD + SLOTS}`, "TIMEOUT", async () => {
    while (writer.committed < MESSAGES) await send({ timeoutMs: 500 });
  });
  await doomed.kill();
  say(`killed process ${doomed.pid}, which held the slot of message ${HELD}`);
  await sendUntil(MESSAGES / 2);
  slow.tell("go on");
  await sendUntil(MESSAGES);
  await stream.synchronize(LIMIT);
  say(`sent ${MESSAGES} messages, ${MESSAGES * elements * 4} bytes: the held slot came back`);
  writer.close();
  await Promise.all([patient.finished(), slow.finished()]);
}

async function read(options: Options): Promise<void> {
  const { role, elements } = options;
  const [name = ""] = options.args;
  await using hub = await join(options);
  const device = hub.device();
  using stream = device.createStream();
  using reader = await hub.openChannel(name, { stream, lossy: role === "slow", ...LIMIT });
  using copy = DeviceArray.allocate(device, { dtype: "int32", shape: [elements] });
  say(roles[role] ?? role);
  tellParent("ready");
  await verifyEach(reader, copy, stream, role);
  const { received, missed } = reader;
  const isRight = received + missed === MESSAGES && missed > 0 === (role === "slow");
  if (!isRight)
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `received ${received} messages and missed ${missed}`,
    );
  const count =
    role === "slow" ? `${received} messages and missed ${missed}` : `${received} messages in order`;
  say(`received ${count}: every element verified`);
}

async function verifyEach(
  reader: ChannelReader,
  copy: DeviceArray<"int32">,
  stream: Stream,
  role: string,
): Promise<void> {
  let next = 0;
  for await (using slot of reader) {
    const { sequence, missed } = slot;
    verify("sequence number", [sequence], () => next + missed);
    next = sequence + 1;
    verify(
      `meta of message ${sequence}`,
      [(slot.json as { number: number }).number],
      () => sequence,
    );
    if (role === "doomed" && sequence === HELD) {
      tellParent("holds it");
      await heard();
    }
    // It holds the first message while a hundred others pass. Nothing overwrites it.
    if (role === "slow" && sequence === 0) await heard();
    await copy.copyFrom(slot.array.expectDType("int32"), { stream });
    // The slot is released after the stream's copy, so the check below takes its time.
    slot.release();
    await stream.synchronize(LIMIT);
    verify(`message ${sequence}`, await copy.read(), (i) => (sequence * 1000 + i) | 0);
  }
}
