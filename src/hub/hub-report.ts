/** What the hub says of itself and its objects, as the messages want it and as much of it as one message takes. */
import { limits } from "../base/limits.js";
import type { HubStatus, ObjectSummary, ResultOf } from "../wire/messages.js";
import type { ObjectTable, SharedObject } from "./object-table.js";
import type { HubIdentity, SessionId } from "./ports.js";

/** What a reply holds beside a list: its head, a name, and one summary of an object, whose descriptor has at most 64 numbers. */
const REST_BYTES = 8 * 1024;

function summarize<Fd>(object: SharedObject<Fd>): ObjectSummary {
  const owned = [...object.leases.values()].some((lease) => lease.kind === "owner");
  return {
    name: object.name,
    object: object.id,
    published: object.published,
    lifetime: object.lifetime,
    leases: object.leases.size,
    ownerPid: owned ? object.ownerPid : null,
    createdAtMs: object.createdAtMs,
    descriptor: object.descriptor,
  };
}

/** The first of these objects, as many as fit, and the name after which the next page begins. */
export function listPage<Fd>(inOrder: Iterable<SharedObject<Fd>>): ResultOf<"list"> {
  const { taken, more } = takeFitting(inOrder, summarize);
  return { objects: taken, next: more ? (taken.at(-1)?.name ?? null) : null };
}

/** An object and its holders, as many as fit, and a count of the others. */
export function inspection<Fd>(
  object: SharedObject<Fd>,
  sessionOf: (id: SessionId) => { readonly pid: number; readonly program: string } | undefined,
): ResultOf<"inspect"> {
  const { taken } = takeFitting(object.leases.values(), (lease) => {
    const { pid, program } = sessionOf(lease.session) ?? { pid: 0, program: "" };
    return { pid, program, access: lease.kind };
  });
  return { object: summarize(object), holders: taken, holdersLeftOut: object.leases.size - taken.length };
}

export function hubStatus<Fd>(
  identity: HubIdentity,
  table: ObjectTable<Fd>,
  counts: { readonly clients: number; readonly waitingOpens: number },
): HubStatus {
  let hostBytes = 0;
  let deviceBytes = 0;
  let pinned = 0;
  for (const object of table.objects()) {
    const bytes = object.descriptor.allocationByteLength;
    if (object.descriptor.device.kind === "host") hostBytes += bytes;
    else deviceBytes += bytes;
    if (object.lifetime === "pinned" && object.named) pinned += 1;
  }
  return { ...identity, ...counts, objects: table.size, pinned, leases: table.leaseCount, hostBytes, deviceBytes };
}

function takeFitting<Item, Entry>(
  items: Iterable<Item>,
  entryOf: (item: Item) => Entry,
): { readonly taken: Entry[]; readonly more: boolean } {
  const taken: Entry[] = [];
  let byteLength = REST_BYTES;
  for (const item of items) {
    const entry = entryOf(item);
    byteLength += Buffer.byteLength(JSON.stringify(entry)) + 1;
    if (byteLength > limits.messageBytesMax) return { taken, more: true };
    taken.push(entry);
  }
  return { taken, more: false };
}
