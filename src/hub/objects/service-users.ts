/**
 * Who may be a worker of a service. The first user with an offer under its name has the name as
 * long as one of that user's offers and links is there. Root and the hub's user may be workers of
 * every service. The hub knows a service by the names of its channels alone (link-names.ts).
 */
import { CudaIpcError } from "../../base/errors.js";
import { ROOT } from "../../os/runtime-folder.js";
import { linkNameOf } from "../../wire/link-names.js";
import type { Peer } from "../core/ports.js";
import type { SharedObject } from "./shared-object.js";

type Offered<Fd> = Pick<SharedObject<Fd>, "name" | "descriptor" | "owner">;

export class ServiceUsers {
  /** By service, how many offers and links each user has. */
  readonly #users = new Map<string, Map<number, number>>();

  /** An object has got its name (1) or lost it (-1). */
  count<Fd>(object: Offered<Fd>, by: 1 | -1): void {
    const service = serviceOf(object);
    if (service === undefined) return;
    const users = this.#users.get(service) ?? new Map<number, number>();
    const count = (users.get(object.owner.uid) ?? 0) + by;
    if (count > 0) users.set(object.owner.uid, count);
    else users.delete(object.owner.uid);
    if (users.size > 0) this.#users.set(service, users);
    else this.#users.delete(service);
  }

  /**
   * Checks that a user may give this name to a new object.
   * @throws PERMISSION_DENIED
   */
  check<Fd>(
    verb: "create" | "publish",
    object: Pick<Offered<Fd>, "name" | "descriptor">,
    { uid }: Peer,
    hubUid: number,
  ): void {
    const service = serviceOf(object);
    const users = service === undefined ? undefined : this.#users.get(service);
    if (users === undefined || users.has(uid) || uid === ROOT || uid === hubUid) return;
    const owner = [...users.keys()].find((user) => user !== ROOT && user !== hubUid);
    const [first] = users.keys();
    throw new CudaIpcError(
      "PERMISSION_DENIED",
      `Cannot ${verb} "${object.name}": service "${service}" belongs to user ${owner ?? first}, ` +
        `who has workers of it, and user ${uid} asked. Only that user, root and the hub's user ` +
        "may be its workers. Use another name.",
    );
  }

  clear(): void {
    this.#users.clear();
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
function serviceOf<Fd>({
  name,
  descriptor,
}: Pick<Offered<Fd>, "name" | "descriptor">): string | undefined {
  if (descriptor.replicaOf !== undefined) return undefined;
  const link = linkNameOf(name);
  return link?.isRequests === false ? link.service : undefined;
}
