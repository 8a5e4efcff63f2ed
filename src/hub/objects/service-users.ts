/**
 * Who may be a worker of a service. The first offer under its name decides, as long as an offer or
 * link of the service is there: its user, and the users that it names. Root and the hub's user may
 * be workers of every service. Each offer keeps the decision, so that it outlives the first one and
 * the hub. The hub knows a service by the names of its channels alone (link-names.ts).
 */
import { CudaIpcError } from "../../base/errors.js";
import { ROOT } from "../../os/runtime-folder.js";
import { linkNameOf } from "../../wire/link-names.js";
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

  /** An object has got its name (1) or lost it (-1). */
  count<Fd>(object: Offered<Fd>, by: 1 | -1): void {
    const service = serviceOf(object);
    if (service === undefined) return;
    const { owner, serviceUsers: users = [owner.uid] } = object;
    const decided = this.#services.get(service) ?? { users, names: 0 };
    decided.names += by;
    if (decided.names > 0) this.#services.set(service, decided);
    else this.#services.delete(service);
  }

  /**
   * The users who may be workers of the object's service. Undefined if it is no offer.
   * @param wanted decides if the object is the first offer
   */
  decide<Fd>(object: Named<Fd>, wanted: readonly number[]): readonly number[] | undefined {
    const service = serviceOf(object);
    return service === undefined ? undefined : (this.#services.get(service)?.users ?? wanted);
  }

  /**
   * Checks that a user may give this name to a new object.
   * @throws PERMISSION_DENIED
   */
  check<Fd>(verb: "create" | "publish", object: Named<Fd>, { uid }: Peer, hubUid: number): void {
    const service = serviceOf(object);
    const { users } = this.#services.get(service ?? "") ?? {};
    if (users === undefined || users.includes(uid) || uid === ROOT || uid === hubUid) return;
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
  }
}

/**
 * Checks that a user may read the requests of a client: only the user of the worker that the
 * client has claimed, whoever else may open them.
 * @param replies the object with the name of the link's replies
 * @throws PERMISSION_DENIED
 */
export function checkMayReadRequests<Fd>(
  { name, owner }: SharedObject<Fd>,
  replies: (name: string) => SharedObject<Fd> | undefined,
  { uid }: Peer,
  hubUid: number,
): void {
  const link = linkNameOf(name);
  if (!link?.isRequests || uid === owner.uid || uid === ROOT || uid === hubUid) return;
  const worker = replies(link.reply)?.owner.uid;
  if (uid === worker) return;
  const whose = worker === undefined ? "whose worker is gone" : `for a worker of user ${worker}`;
  throw new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot open "${name}": it has requests of user ${owner.uid}, ${whose}, and user ${uid} asked`,
  );
}

/** WHY no replicas: clients take those of a bridge of their own user only, whatever their name. */
function serviceOf<Fd>({ name, descriptor }: Named<Fd>): string | undefined {
  if (descriptor.replicaOf !== undefined) return undefined;
  const link = linkNameOf(name);
  return link?.isRequests === false ? link.service : undefined;
}
