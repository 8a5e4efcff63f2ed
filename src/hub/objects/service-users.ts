/**
 * Who may be a worker of a service. The first offer under its name decides, as long as an offer or
 * link of the service is there: its user, and the users that it names. Root and the hub's user may
 * be workers of every service. Each offer keeps the decision, so that it outlives the first one and
 * the hub. The names with the id of a worker are its user's alone. The hub knows a service by the
 * names of its channels alone (link-names.ts).
 */
import { CudaIpcError } from "../../base/errors.js";
import { ROOT } from "../../os/runtime-folder.js";
import { type LinkName, linkNameOf, offerPrefix } from "../../wire/link-names.js";
import type { Peer } from "../core/ports.js";
import type { SharedObject } from "./shared-object.js";

type Offered<Fd> = Pick<SharedObject<Fd>, "name" | "descriptor" | "owner" | "serviceUsers">;
type Named<Fd> = Pick<Offered<Fd>, "name" | "descriptor">;

interface Decided {
  /** The first is the user who decided. */
  readonly users: readonly number[];
  /** How many offers and links the service has. */
  names: number;
}

export class ServiceUsers {
  readonly #services = new Map<string, Decided>();
  /** By the names of a worker, without the number. A worker of another machine has its bridge's. */
  readonly #workers = new Map<string, Decided>();

  /** An object has got its name (1) or lost it (-1). */
  count<Fd>(object: Offered<Fd>, by: 1 | -1): void {
    const link = repliesOf(object);
    if (link === undefined) return;
    const { owner, serviceUsers: users = [owner.uid] } = object;
    count(this.#workers, workerOf(link), [owner.uid], by);
    if (isOffer(object)) count(this.#services, link.service, users, by);
  }

  /**
   * The users who may be workers of the object's service. Undefined if it is no offer.
   * @param wanted decides if the object is the first offer
   */
  decide<Fd>(object: Named<Fd>, wanted: readonly number[]): readonly number[] | undefined {
    const service = isOffer(object) ? repliesOf(object)?.service : undefined;
    return service === undefined ? undefined : (this.#services.get(service)?.users ?? wanted);
  }

  /**
   * Checks that a user may give this name to a new object.
   * @throws PERMISSION_DENIED
   */
  check<Fd>(verb: "create" | "publish", object: Named<Fd>, { uid }: Peer, hubUid: number): void {
    const link = repliesOf(object);
    if (link === undefined || uid === ROOT || uid === hubUid) return;
    const [user] = this.#workers.get(workerOf(link))?.users ?? [uid];
    if (user !== uid) {
      const found = `worker "${link.worker}" is of user ${user}, and user ${uid} asked`;
      throw new CudaIpcError("PERMISSION_DENIED", `Cannot ${verb} "${object.name}": ${found}`);
    }
    const { service } = link;
    const { users } = this.#services.get(service) ?? {};
    if (isCopy(object) || users === undefined || users.includes(uid)) return;
    const [owner, ...others] = users;
    const named = others.length > 0 ? `, the users that it named (${others.join(", ")})` : "";
    throw new CudaIpcError(
      "PERMISSION_DENIED",
      `Cannot ${verb} "${object.name}": service "${service}" belongs to user ${owner}, ` +
        `who has workers of it, and user ${uid} asked. Only that user${named}, root and the ` +
        "hub's user may be its workers. Use another name.",
    );
  }

  clear(): void {
    this.#services.clear();
    this.#workers.clear();
  }
}

/** Whether the object, which is named as an offer, is one. */
function isOffer<Fd>(object: Named<Fd>): boolean {
  return !isCopy(object) && object.descriptor.content.kind === "channel";
}

/** WHY free: clients take copies of a bridge of their own user only, whatever their name. */
function isCopy<Fd>({ descriptor }: Named<Fd>): boolean {
  return descriptor.replicaOf !== undefined;
}

function repliesOf({ name }: { readonly name: string }): LinkName | undefined {
  const link = linkNameOf(name);
  return link?.isRequests === false ? link : undefined;
}

function workerOf({ service, worker }: LinkName): string {
  return `${offerPrefix(service)}${worker}`;
}

function count(
  counts: Map<string, Decided>,
  key: string,
  users: readonly number[],
  by: 1 | -1,
): void {
  const decided = counts.get(key) ?? { users, names: 0 };
  decided.names += by;
  if (decided.names > 0) counts.set(key, decided);
  else counts.delete(key);
}
