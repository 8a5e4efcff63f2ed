/**
 * The latest pinned objects that were lost: their memory went with an earlier hub and its keeper,
 * and no process is left to bring it back.
 */
import { formatBytes } from "../../base/bytes.js";
import { uuidOf } from "../../base/device-reference.js";
import { limits } from "../../base/limits.js";
import { chargedBytes } from "../../wire/descriptor.js";
import type { LostObject } from "../../wire/messages.js";
import { type Guarded, mayOpen } from "../core/access.js";
import type { HubPorts, Peer } from "../core/ports.js";
import type { SharedObject } from "./shared-object.js";

type Lost = LostObject & Guarded;

export class LostObjects {
  readonly #ports: Pick<HubPorts<unknown>, "objectLost" | "now">;
  readonly #byName = new Map<string, Lost>();

  constructor(ports: Pick<HubPorts<unknown>, "objectLost" | "now">) {
    this.#ports = ports;
  }

  add({ name, owner, sharing, descriptor }: SharedObject<unknown>): void {
    const { hostBytes, deviceBytes } = chargedBytes(descriptor);
    const { device } = descriptor;
    const lost: Lost = {
      name,
      byteLength: hostBytes + deviceBytes,
      device: uuidOf(device),
      ownerPid: owner.pid,
      ownerUid: owner.uid,
      lostAtMs: this.#ports.now(),
      owner,
      sharing,
    };
    this.#byName.delete(name);
    this.#byName.set(name, lost);
    const [oldest] = this.#byName.keys();
    if (this.#byName.size > limits.lostObjectsMax && oldest !== undefined)
      this.#byName.delete(oldest);
    this.#ports.objectLost(`"${name}": ${summaryOf(lost)}`, lost);
  }

  /** Another object has the name now. */
  forget(name: string): void {
    this.#byName.delete(name);
  }

  /** Explains the loss to a peer that was allowed to open the object. */
  explain(name: string, peer: Peer): string | undefined {
    const lost = this.#byName.get(name);
    if (lost === undefined || !mayOpen(lost, peer, "read")) return undefined;
    const time = new Date(lost.lostAtMs).toISOString();
    return `it was lost at ${time}, when hub and keeper ended together: ${summaryOf(lost)}`;
  }

  /** The lost objects that this peer was allowed to open. */
  list(peer: Peer): LostObject[] {
    const visible = [...this.#byName.values()].filter((lost) => mayOpen(lost, peer, "read"));
    return visible.map(({ owner: _, sharing: __, ...lost }) => lost);
  }
}

function summaryOf({ byteLength, device, ownerPid, ownerUid }: LostObject): string {
  return `${formatBytes(byteLength)} on ${device}, made by process ${ownerPid} of user ${ownerUid}`;
}
