// A client process of the soak: connects, does random things, disconnects, and repeats, until its
// input ends. bench/soak gives the orders.

import { connect } from "../../src/index.js";
import { mappedBytes } from "../../src/os/mapping.js";
import { openFdCount } from "../../src/os/owned-fd.js";
import { Random } from "../random.js";
import { pickAction } from "../soak/actions.js";
import type { ClientOrder } from "../soak/client-process.js";
import { Tally } from "../soak/tally.js";
import { Visit } from "../soak/visit.js";

const order = JSON.parse(process.argv[2] ?? "") as ClientOrder;
const random = new Random(order.seed);
const tally = new Tally(order.operationMs, (line) =>
  process.stdout.write(`${JSON.stringify(line)}\n`),
);
const leaving = new AbortController();
// Its input also ends if the soak itself is killed.
process.stdin.on("end", () => leaving.abort()).resume();
setInterval(() => tally.flush(), 1000).unref();

while (!leaving.signal.aborted) {
  tally.hubGone = false;
  const { socket, hubIdleMs } = order;
  const hub = await tally.attempt("connect", [], () =>
    connect({ socket, device: "host", hubIdleMs }),
  );
  if (hub !== undefined) await stay(new Visit(hub, random, tally, order.service));
  // A visit must leave nothing behind.
  const left = { descriptors: openFdCount(), mappedBytes: mappedBytes() };
  if (left.descriptors > 0 || left.mappedBytes > 0)
    tally.fault(`left over after a visit: ${JSON.stringify(left)}`);
}
tally.flush();

async function stay(visit: Visit): Promise<void> {
  try {
    for (let actions = 10 + random.below(300); actions > 0; actions -= 1) {
      await pickAction(visit)(visit);
      await pause();
      if (leaving.signal.aborted || tally.hubGone) return;
    }
  } finally {
    await visit.end();
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, random.below(2 * order.pauseMs)));
}
