/** Attacks by the words of channels, their bells, and the names of services. */
import { hasCode } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { libc } from "../../../../src/ffi/libc.js";
import { addressOf } from "../../../../src/os/host-memory.js";
import { Mapping } from "../../../../src/os/mapping.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { channelFdsAt } from "../../../../src/ring/channel-fds.js";
import {
  control,
  controlByteLength,
  HEADERS_AT,
  header,
  headerStrideOf,
} from "../../../../src/ring/channel-layout.js";
import { createControlFile } from "../../../../src/ring/control-file.js";
import { encodeEnvelope } from "../../../../src/service/envelope.js";
import { slotsOf } from "../../../../src/service/link-window.js";
import { factsMessage } from "../../../../src/service/service-facts.js";
import { replyName } from "../../../../src/service/service-names.js";
import { restlessChannels, soakServices } from "../../../support/attack.js";
import { channelFiles } from "../../../support/channel-client.js";
import { channelOf } from "../../../support/messages.js";
import { fillBell } from "../../../support/waiting-fds.js";
import { type Attack, lasting, own, type Step, socketPath, Wire } from "./attack-wire.js";

/** It changes words for this long without a turn of its event loop. */
const BURST_MS = 20;
const OFFERS = 4;
const META_BYTES = 1100;
const MESSAGE = { dtype: "float64", shape: [8] } as const;

const ring = channelOf({ whenFull: "drop-oldest", slots: 4, readersMax: 8 });
const { content } = ring;
const forAll = { with: "all", access: "read" } as const;

function createRing(wire: Wire, name: string, fds: readonly OwnedFd[]): number | undefined {
  const fields = { op: "create", name, lifetime: "held", sharing: forAll, descriptor: ring };
  return wire.share(fields, fds);
}

/** A `drop-oldest` channel for all, whose words it never stops changing. */
function restless(): Step {
  const fds = channelFiles(content);
  const bytes = controlByteLength(content);
  const { buffer } = Mapping.shared(fds[channelFdsAt.control] as OwnedFd, bytes, "read-write").view(
    0,
    bytes,
  );
  createControlFile(buffer, { ...content, firstPosition: 0 });
  const words = new BigInt64Array(buffer);
  const stride = headerStrideOf(content.metaBytesMax);
  const wire = lasting((wire) => {
    // Other attackers may have the first names.
    restlessChannels.some((name) => createRing(wire, name, fds) !== undefined);
  });
  let position = 0n;
  return () => {
    wire();
    const end = performance.now() + BURST_MS;
    while (performance.now() < end) {
      for (let count = 0; count < 1000; count += 1) {
        position += BigInt(2 * content.slots + 1);
        words[control.limit / 8] = position;
        words[control.published / 8] = position + BigInt(count % 2);
        // Now and then a message seems to be there, and is overwritten.
        const slot = Number(position) % content.slots;
        words[(HEADERS_AT + slot * stride + header.generation) / 8] = position + 1n;
      }
    }
  };
}

/** Offers of services that it does not own. Half of them say hello, and none says more. */
async function workers(): Promise<Step> {
  const hub = await connect({ socket: socketPath, start: false, device: "host" });
  let made = 0;
  const offer = async (service: string, saysHello: boolean) => {
    made += 1;
    const name = replyName(service, `0${own.replaceAll(/\W/g, "")}`, made);
    const writer = await hub.createChannel(name, {
      ...MESSAGE,
      slots: slotsOf(2),
      readersMax: 1,
      metaBytesMax: META_BYTES,
      sharing: { with: "all" },
    });
    if (!saysHello) return writer;
    const facts = factsMessage({ depth: 2, request: { ...MESSAGE, metaBytesMax: 280 } });
    using slot = await writer.loan();
    const meta = encodeEnvelope(name, { kind: "hello", number: 0 }, facts, META_BYTES);
    slot.commit({ meta, byteLength: 0 });
    return writer;
  };
  return async () => {
    const offers: { close(): void }[] = [];
    for (let count = 0; count < OFFERS * soakServices.length; count += 1) {
      const service = soakServices[count % soakServices.length] as string;
      try {
        offers.push(await offer(service, count % 2 === 0));
      } catch (error) {
        // Another user has workers of this service.
        if (!hasCode(error, "PERMISSION_DENIED")) throw error;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const one of offers) one.close();
  };
}

/** Fills the bells of a channel and makes them blocking, and has the hub ring them. */
function bells(): Step {
  const fds = channelFiles(content);
  const name = `${own}-bells`;
  const writer = lasting((wire) => createRing(wire, name, fds));
  const all = [channelFdsAt.roomBell, ...seats().map((seat) => channelFdsAt.bell(seat))];
  return () => {
    const reader = new Wire().greet();
    writer();
    reader.ask({ op: "open", name, access: "read", role: "reader", wait: false });
    for (const bell of all) fillBell((fds[bell] as OwnedFd).number);
    // The end of a reader and of a writer ring.
    reader.ask({ op: "bye" });
    reader.socket.close();
    writer().ask({ op: "bye" });
    writer().hasEnded = true;
  };
}

function seats(): number[] {
  return Array.from({ length: content.readersMax }, (_, seat) => seat);
}

const AIO = process.arch === "arm64" ? { setup: 0, destroy: 1 } : { setup: 206, destroy: 207 };
const HOLD_MS = 2500;
const REST_MS = 2000;

/**
 * Takes all of fs.aio-max-nr, for HOLD_MS at a time, and fills bells. The kernel takes it back if
 * this process ends.
 */
function aio(): Step {
  const step = bells();
  let held: bigint[] = [];
  let until = 0;
  return async () => {
    if (held.length === 0) {
      held = takeAio();
      until = performance.now() + HOLD_MS;
    }
    step();
    if (performance.now() < until) return;
    for (const context of held) libc().kernel(AIO.destroy, context, 0n, 0n, 0n, 0n, 0n);
    held = [];
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
  };
}

function takeAio(): bigint[] {
  const place = new BigUint64Array(1);
  const contexts: bigint[] = [];
  for (let events = 32_768n; events >= 1n; ) {
    place[0] = 0n;
    if (
      libc().kernel(AIO.setup, events, addressOf(new Uint8Array(place.buffer)), 0n, 0n, 0n, 0n) ===
      0
    )
      contexts.push(place[0] as bigint);
    else events /= 2n;
  }
  return contexts;
}

export const attacksByChannels: Readonly<Record<string, Attack>> = {
  restless,
  workers,
  bells,
  aio,
};
