// One side of a channel: `channel.mjs SOCKET COMMAND NAME [JSON]`.
import { args, heard, hub, LIMIT, say, socket } from "./common.mjs";

const [command, name, json = "{}"] = args;
const options = JSON.parse(json);

const describe = (slot) => ({
  sequence: slot.sequence,
  missed: slot.missed,
  shape: slot.array.shape,
  meta: slot.json ?? Buffer.from(slot.meta ?? []).toString("hex"),
  first: slot.bytes[0] ?? null,
  same: slot.bytes.every((byte) => byte === slot.bytes[0]),
});

const commands = {
  /** Writes `count` messages, each with its sequence in every byte. */
  async write() {
    const { count, shape = [64], ...rest } = options;
    const writer = await hub.createChannel(name, { dtype: "uint8", shape, ...rest });
    say("open");
    await heard();
    for (let sequence = 0; sequence < count; sequence += 1) {
      const slot = await writer.loan(LIMIT);
      slot.bytes.fill(sequence % 251);
      slot.commit({ meta: sequence });
    }
    say(writer.dropped);
    await heard();
    writer.close();
  },
  /** Writes by a stream, so messages come before their data. */
  async stream() {
    const writer = await hub.createChannel(name, { dtype: "uint8", shape: [1 << 20], slots: 2 });
    const stream = hub.device().createStream();
    say("open");
    await heard();
    for (let sequence = 0; sequence < options.count; sequence += 1) {
      const slot = await writer.loan({ stream, ...LIMIT });
      await slot.array.fill(sequence, { stream });
      slot.commit({ meta: sequence });
    }
    await stream.synchronize(LIMIT);
    writer.close();
  },
  /** Does what it is told: commits `{fill, options}`, loans a slot or closes. */
  async follow() {
    const writer = await hub.createChannel(name, options);
    say("open");
    for (let order = await heard(); order !== undefined; order = await heard()) {
      if (order === "close") writer.close();
      else if (order === "loan") await writer.loan(LIMIT);
      else {
        const slot = await writer.loan(LIMIT);
        slot.bytes.fill(order.fill);
        slot.commit(order.options);
      }
      say("done");
    }
  },
  /** Reads to the end, and sums up. */
  async read() {
    const { from = "oldest", lossy = false, all = false } = options;
    const reader = await hub.openChannel(name, { from, lossy });
    say("reading");
    const wrong = [];
    let end = "closed";
    let last = null;
    try {
      for (
        let slot = await reader.next(LIMIT);
        slot !== undefined;
        slot = await reader.next(LIMIT)
      ) {
        const found = describe(slot);
        if (all) say(found);
        if (!found.same || (found.first !== null && found.first !== found.sequence % 251))
          wrong.push(found);
        last = found.sequence;
        slot.release();
      }
    } catch (error) {
      end = error.code ?? String(error);
    }
    say({ end, wrong, last, received: reader.received, missed: reader.missed });
  },
  /** Holds the first message until it is told. */
  async hold() {
    const reader = await hub.openChannel(name, { from: "oldest", ...options });
    const slot = await reader.next(LIMIT);
    say(describe(slot));
    await heard();
    say(describe(slot));
    slot.release();
    reader.close();
  },
  /** Goes on with a channel, writes `count` messages and leaves it. */
  async resume() {
    const writer = await hub.resumeChannel(name);
    for (let n = 0; n < options.count; n += 1) {
      const slot = await writer.loan(LIMIT);
      slot.bytes.fill(writer.committed % 251);
      slot.commit({ meta: writer.committed });
    }
    say(writer.committed);
    await heard();
    writer.close();
  },
};
await commands[command]();
if (socket !== undefined) await hub.close();
