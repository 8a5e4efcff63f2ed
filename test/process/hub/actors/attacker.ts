// Attacks a hub in one way, as fast as the hub answers, until it is killed. Prints "here" when the
// attack has begun.
import { fork } from "node:child_process";
import { once } from "node:events";
import { limits } from "../../../../src/base/limits.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say } from "../../../support/actor-side.js";
import { hostArray, timelineDescriptor } from "../../../support/messages.js";
import { LingeringSockets } from "../../../support/waiting-fds.js";
import { type Attack, memory, own, socketPath, Wire, waitFor } from "./attack-wire.js";
import { attacksByChannels } from "./attacks-by-channels.js";
import { attacksByFiles } from "./attacks-by-files.js";

const kind = argument(1);
const CONNECTIONS = 8;
const CROWD = 64;
const WAITS = 1000;
const LEASES = 20_000;

function several(): Wire[] {
  return Array.from({ length: CONNECTIONS }, () => new Wire().greet());
}

/** One request after the other on several connections, each answered before the next. */
function flood(request: () => object): () => void {
  const wires = several();
  return () => {
    for (const wire of wires) wire.send(request());
    for (const wire of wires) wire.reply();
  };
}

const open = { op: "open", name: own, access: "read", wait: false };

/** Each attack prepares something, and returns the step to repeat. */
const attacks: Readonly<Record<string, Attack>> = {
  ...attacksByChannels,
  ...attacksByFiles,
  none: () => () => waitFor(keeper.socket, 100),
  /** Sends nothing and only computes. Shows what the use of the processors alone costs others. */
  computing: () => () => {
    const end = performance.now() + 1;
    while (performance.now() < end);
  },
  /** Sessions that hold something and whose connections are gone. */
  storm: () => () => {
    const wire = new Wire().greet();
    wire.ask(open);
    wire.socket.close();
  },
  /** Replies with many descriptors, which are never read. */
  deaf: async () => {
    const hub = await connect({ socket: socketPath, start: false, device: "host" });
    const channel = await hub.createChannel(`${own}-channel`, {
      dtype: "uint8",
      shape: [8],
      readersMax: 64,
    });
    kept.push(hub, channel);
    const wires = several();
    const request = {
      op: "open",
      name: `${own}-channel`,
      access: "read",
      role: "observer",
      wait: false,
    };
    return () => {
      let taken = 0;
      for (const wire of wires) if (wire.send(request) !== undefined) taken += 1;
      if (taken === 0) waitFor(keeper.socket, 10);
    };
  },
  /** Replies of 64 KiB, which are never read. */
  unread: () => {
    for (let index = 0; index < 300; index += 1) keeper.publish(`${own}-${index}`);
    const wires = several();
    return () => {
      let taken = 0;
      for (const wire of wires) if (wire.send({ op: "list" }) !== undefined) taken += 1;
      if (taken === 0) waitFor(keeper.socket, 10);
    };
  },
  list: () => {
    for (let index = 0; index < 300; index += 1) keeper.publish(`${own}-${index}`);
    return flood(() => ({ op: "list" }));
  },
  status: () => flood(() => ({ op: "status" })),
  /** Leases that are never released, up to the limit. */
  leases: () => flood(() => open),
  /** Sessions with many leases that end at once. */
  endings: () => () => {
    const wire = new Wire().greet();
    for (let index = 0; index < LEASES; index += 64) {
      for (let sent = 0; sent < 64; sent += 1) wire.send(open);
      for (let sent = 0; sent < 64; sent += 1) if (wire.reply() === undefined) break;
    }
    wire.ask({ op: "bye" });
    wire.socket.close();
  },
  churn: () => {
    const wires = several();
    let count = 0;
    return () => {
      for (const wire of wires) {
        count += 1;
        const lease = wire.publish(`${own}-${count}`);
        if (lease !== undefined) wire.ask({ op: "release", lease });
      }
    };
  },
  failing: () => {
    const descriptor = { ...hostArray, byteLength: 100_000, allocationByteLength: 102_400 };
    const wires = several();
    return () => {
      for (const wire of wires)
        wire.send({ op: "create", name: own, lifetime: "held", descriptor }, [memory]);
      for (const wire of wires) wire.reply();
    };
  },
  /** Messages with as many descriptors as the kernel carries, on many connections. */
  crowded: () => {
    const wires = Array.from({ length: CROWD }, () => new Wire().greet());
    const fds = Array.from({ length: limits.scmRightsFdsMax }, () => memory);
    return () => {
      for (const wire of wires)
        wire.send({ op: "create", name: own, lifetime: "held", descriptor: hostArray }, fds);
      for (const wire of wires) wire.reply();
    };
  },
  /** Thousands of waits for one name, which is then published. */
  waiting: () => {
    const wires = several();
    let count = 0;
    return () => {
      count += 1;
      const name = `${own}-awaited-${count}`;
      for (const wire of wires)
        for (let sent = 0; sent < WAITS; sent += 1) wire.send({ ...open, name, wait: true });
      const lease = keeper.publish(name);
      for (const wire of wires) while (wire.reply(20) !== undefined);
      if (lease !== undefined) keeper.ask({ op: "release", lease });
    };
  },
  connects: () => () => {
    for (let count = 0; count < 64; count += 1) new Wire().socket.close();
  },
  /** Sockets whose close blocks, sent before the hub knows the client. */
  lingering: async () => {
    const sockets = await LingeringSockets.open();
    const hello = { op: "hello", client: { version: "0", program: "attacker" } };
    let fd = sockets.make();
    return () => {
      const wire = new Wire();
      // WHY only then: the hub has the last copy. Closing a refused one would block here.
      if (wire.send(hello, [fd]) !== undefined) {
        fd.close();
        fd = sockets.make();
      }
      wire.socket.close();
    };
  },
  garbage: () => {
    const bytes = Buffer.alloc(65_536, '{"v":1,"id":1,"op":"create","name":[[[[[[[[[');
    const valid = Buffer.from(
      JSON.stringify({ v: 1, id: 1, op: "status", more: "x".repeat(65_000) }),
    );
    return () => {
      const wire = new Wire().greet();
      for (const one of [valid, bytes]) wire.raw(one);
      while (wire.reply() !== undefined);
      wire.socket.close();
    };
  },
  /** Ends of timelines in a page that is mapped very often, while others punch holes into it. */
  punching: async () => {
    const file = new URL("./punches-holes.js", import.meta.url);
    const stdio = ["ignore", "ignore", "inherit", memory.number, "ipc"] as const;
    const punchers = [1, 2].map(() => fork(file, { stdio: [...stdio] }));
    for (const puncher of punchers) await once(puncher, "message");
    const fields = { name: `${own}-t`, lifetime: "held", descriptor: timelineDescriptor };
    return () => {
      const created = keeper.ask({ op: "create", ...fields }, [memory]);
      if (created?.lease !== undefined) keeper.ask({ op: "release", lease: created.lease });
    };
  },
};

const kept: unknown[] = [];
const keeper = new Wire().greet();
keeper.publish(own);
const attack = attacks[kind === "unserved" ? "connects" : kind.replace("unserved, ", "")];
if (attack === undefined)
  throw new TypeError(`No attack ${kind}; there are ${Object.keys(attacks).join(", ")}`);
const again = await attack();
say("here");
for (;;) {
  await again();
  // WHY: the library, which some attacks use, needs turns of the event loop to read.
  await new Promise((resolve) => setImmediate(resolve));
}
