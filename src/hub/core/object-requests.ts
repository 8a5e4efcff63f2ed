/**
 * The requests about objects, except opening (open-requests.ts). Checks each request against the
 * permissions of the client. The object table keeps the result.
 */
import { CudaIpcError } from "../../base/errors.js";
import { readerFdsAt } from "../../ring/channel-fds.js";
import { fdsOf } from "../../wire/descriptor.js";
import {
  type Lifetime,
  PRIVATE,
  type RequestOf,
  type ResultOf,
  type Sharing,
} from "../../wire/messages.js";
import { checkName } from "../../wire/names.js";
import { endsWithOwner, hasOwnFile } from "../../wire/schemas.js";
import type { Attachments } from "../descriptors/attachments.js";
import { checkParts } from "../descriptors/check-channel.js";
import { checkMemory, checkSameMemory, checkUse } from "../descriptors/check-descriptor.js";
import { workerOfRequests } from "../objects/link-access.js";
import { checkMayPublish, checkMayReplace } from "../objects/name-taken.js";
import type { ObjectTable } from "../objects/object-table.js";
import type { Lease, ObjectMemory, SharedObject } from "../objects/shared-object.js";
import { hasHubWords, takesNameLater, unheldSince } from "../objects/shared-object.js";
import { checkMayManage, checkMaySee } from "./access.js";
import type { ChangeWaits } from "./change-waits.js";
import { type Drains, isDrained } from "./drains.js";
import type { Held } from "./held.js";
import { changesPage, inspection, listPage } from "./object-report.js";
import type { OpenRequests } from "./open-requests.js";
import type { ConnectionId, HubPorts } from "./ports.js";
import type { Session } from "./sessions.js";

/** A publish whose reply waits until the next hub would have the object. */
export interface PendingPublish {
  readonly connection: ConnectionId;
  readonly request: number;
}

export class ObjectRequests<Fd> {
  readonly #ports: HubPorts<Fd>;
  readonly #hubUid: number;
  readonly #objects: ObjectTable<Fd>;
  readonly #opens: OpenRequests<Fd>;
  readonly #drains: Drains<Fd>;
  readonly #changeWaits: ChangeWaits<Fd>;
  readonly #pendingPublishes = new Map<number, PendingPublish[]>();

  constructor(
    ports: HubPorts<Fd>,
    { hubUid, objects, drains, changeWaits }: Held<Fd>,
    opens: OpenRequests<Fd>,
  ) {
    this.#ports = ports;
    this.#hubUid = hubUid;
    this.#objects = objects;
    this.#opens = opens;
    this.#drains = drains;
    this.#changeWaits = changeWaits;
  }

  create(
    session: Session<Fd>,
    request: RequestOf<"create">,
    attached: Attachments<Fd>,
  ): ResultOf<"create"> {
    const { descriptor, lifetime, sharing = PRIVATE, replace, workers } = request;
    const name = checkName(request.name);
    const attempt = `create "${name}"`;
    const { fds } = attached;
    const unfit = endsWithOwner(descriptor) ? whyUnfitForLegacy(lifetime, sharing) : undefined;
    if (unfit !== undefined) throw new CudaIpcError("UNSUPPORTED", `Cannot ${attempt}: ${unfit}`);
    const found = this.#objects.index.find(name);
    // At once, and not only when it is published: the client is about to fill the memory.
    if (found !== undefined && replace !== undefined)
      checkMayReplace(found, descriptor.content.kind, replace, session.peer);
    const serviceUsers = this.#serviceUsers("create", { name, descriptor, workers }, session);
    if (hasHubWords(request)) this.#ports.checkWritten(attempt, session.peer.uid);
    const { inodes, writable } = checkMemory(attempt, descriptor, fds, this.#ports);
    checkUse(attempt, { descriptor, sharing, writable }, fds, this.#ports);
    const memory: ObjectMemory<Fd> = { fds: fds as [Fd, ...Fd[]], writable };
    const createdAtMs = this.#ports.now();
    const fields = {
      name,
      lifetime,
      sharing,
      descriptor,
      inodes: [...inodes],
      writable,
      createdAtMs,
      memory,
      replace,
      serviceUsers,
    };
    const lease = this.#objects.create(fields, session);
    attached.keep();
    return { object: lease.object.id, lease: lease.id };
  }

  /** Returns undefined if the reply has to wait; see `takePendingPublishes`. */
  publish(session: Session<Fd>, request: RequestOf<"publish">): ResultOf<"publish"> | undefined {
    const { id, object: number } = request;
    const object = this.#owned(session, number, "publish");
    checkMayPublish(object, this.#objects.index.find(object.name), session.peer);
    if (takesNameLater(object)) this.#serviceUsers("publish", object, session);
    this.#objects.publish(object);
    if (this.#ports.isKept(number)) return {};
    const pending = { connection: session.connection.id, request: id };
    const others = this.#pendingPublishes.get(number) ?? [];
    this.#pendingPublishes.set(number, [...others, pending]);
    return undefined;
  }

  /**
   * Who may be workers of the service of this offer; of a client's requests, its worker's user.
   * @throws PERMISSION_DENIED, INVALID_MESSAGE
   */
  #serviceUsers(
    verb: "create" | "publish",
    object: Pick<SharedObject<Fd>, "name" | "descriptor"> & Pick<RequestOf<"create">, "workers">,
    session: Session<Fd>,
  ): readonly number[] | undefined {
    const { index } = this.#objects;
    const { peer } = session;
    index.services.check(verb, object, peer, this.#hubUid);
    const { name, workers } = object;
    const attempt = `${verb} "${name}"`;
    const wanted = [...new Set([peer.uid, ...(workers ?? [])])];
    const users = index.services.decide(object, wanted);
    if (workers !== undefined && users === undefined)
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot ${attempt}: it is no offer of a service`);
    const worker = workerOfRequests(attempt, name, session, (name) => index.find(name));
    return worker === undefined ? users : [worker];
  }

  /** The publishes of this object that wait for their reply. Reply to them now. */
  takePendingPublishes(object: number): readonly PendingPublish[] {
    const pending = this.#pendingPublishes.get(object) ?? [];
    this.#pendingPublishes.delete(object);
    return pending;
  }

  release(session: Session<Fd>, request: RequestOf<"release">): ResultOf<"release"> {
    this.#objects.release(leaseOf(session, request.lease, "release"));
    return {};
  }

  /** Returns undefined if the reply has to wait for leases to end. */
  drain(session: Session<Fd>, { id, object: number }: RequestOf<"drain">) {
    const object = this.#owned(session, number, "drain");
    this.#objects.remove(object);
    if (isDrained(object)) return {};
    this.#drains.add(session, id, object);
    return undefined;
  }

  /** The client still holds this lease, and may bring back memory that went with an earlier hub. */
  restore(
    session: Session<Fd>,
    request: RequestOf<"restore">,
    attached: Attachments<Fd>,
  ): ResultOf<"restore"> {
    const lease = leaseOf(session, request.lease, "restore");
    // First, because the client holds the lease whatever the hub thinks of the memory.
    session.unrestored?.delete(request.lease);
    if (attached.fds.length === 0) return {};
    if (lease.role === "reader" || lease.role === "observer") this.#bringParts(lease, attached);
    else this.#bringBack(session, lease.object, attached);
    return {};
  }

  remove(session: Session<Fd>, request: RequestOf<"remove">): ResultOf<"remove"> {
    const object = this.#named(session, request.name, "remove");
    checkMayManage(object, session.peer, "remove");
    const { object: number = object.id, unheldSinceMs } = request;
    if (object.id !== number) {
      const found = `it is object ${object.id} now, not ${number}`;
      throw new CudaIpcError("STALE_HANDLE", `Cannot remove "${object.name}": ${found}`);
    }
    if (unheldSinceMs !== undefined && unheldSince(object) !== unheldSinceMs) {
      const found = "it was used since it was listed";
      throw new CudaIpcError("IN_USE", `Cannot remove "${object.name}": ${found}`);
    }
    object.removedBy = { peer: session.peer, program: session.program };
    this.#objects.remove(object);
    return {};
  }

  list(session: Session<Fd>, request: RequestOf<"list">): ResultOf<"list"> {
    return listPage(this.#objects.index, session.peer, request);
  }

  /** Returns undefined if it waits. */
  changes(session: Session<Fd>, request: RequestOf<"changes">): ResultOf<"changes"> | undefined {
    const page = changesPage(this.#objects.index, session.peer, request.since);
    const { objects, ended, next, more, reset } = page;
    if (request.wait !== true || reset || more || objects.length + ended.length > 0) return page;
    this.#changeWaits.add(session, { request: request.id, since: next });
    return undefined;
  }

  inspect(session: Session<Fd>, request: RequestOf<"inspect">): ResultOf<"inspect"> {
    const object = this.#named(session, request.name, "inspect");
    checkMaySee(object, session.peer);
    return inspection(object);
  }

  clear(): void {
    this.#pendingPublishes.clear();
  }

  #bringBack(session: Session<Fd>, object: SharedObject<Fd>, attached: Attachments<Fd>): void {
    const attempt = `bring back the memory of "${object.name}"`;
    const [memory, ...rest] = attached.fds as [Fd, ...Fd[]];
    const wanted = fdsOf(object.descriptor);
    if (attached.fds.length !== wanted) {
      const found = `${attached.fds.length} descriptors came with it, wanted ${wanted}`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot ${attempt}: ${found}`);
    }
    if (!hasOwnFile(object.descriptor))
      checkMayManage(object, session.peer, "bring back the memory of");
    const found = checkMemory(attempt, object.descriptor, attached.fds, this.#ports);
    checkSameMemory(attempt, object, found);
    if (object.memory !== undefined && (object.memory.writable || !found.writable)) return;
    // A reader brings its read-only descriptor. The next writer needs a writable one.
    const twin =
      object.writable && !found.writable ? this.#ports.reopenWritable(memory) : undefined;
    attached.keep();
    if (twin !== undefined) this.#ports.closeFd(memory);
    this.#objects.supply(object, {
      fds: [twin ?? memory, ...rest],
      writable: found.writable || twin !== undefined,
    });
    this.#opens.grantWaiting(object);
  }

  /** Takes a channel reader's descriptors. An observer has none that the hub could use. */
  #bringParts(lease: Lease<Fd>, attached: Attachments<Fd>): void {
    checkParts(`bring back "${lease.object.name}"`, lease, attached.fds, this.#ports);
    if (lease.object.memory !== undefined) return;
    const parts = {
      control: attached.fds[readerFdsAt.control] as Fd,
      bell: attached.fds[readerFdsAt.bell] as Fd,
    };
    // WHY not all: the slots could be any large memory, and nothing needs them here.
    for (const fd of [parts.control, parts.bell]) attached.kept.add(fd);
    this.#objects.supplyParts(lease, parts);
  }

  /** @throws NOT_FOUND, NOT_OWNER */
  #owned(session: Session<Fd>, number: number, verb: string): SharedObject<Fd> {
    const object = this.#objects.index.get(number);
    if (object === undefined) {
      const found = "no object has this number";
      throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} object ${number}: ${found}`);
    }
    if (object.leases.owner?.session === session) return object;
    const found = "another process created it";
    throw new CudaIpcError("NOT_OWNER", `Cannot ${verb} "${object.name}": ${found}`);
  }

  #named(session: Session<Fd>, name: string, verb: string): SharedObject<Fd> {
    const object = this.#objects.index.find(checkName(name));
    if (object !== undefined) return object;
    const found = this.#opens.absence(name, session.peer);
    throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} "${name}": ${found}`);
  }
}

/** @throws NOT_FOUND */
function leaseOf<Fd>(session: Session<Fd>, id: number, verb: string): Lease<Fd> {
  const lease = session.leases.get(id);
  if (lease !== undefined) return lease;
  throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} lease ${id}: this client does not hold it`);
}

/** Why an object of legacy memory cannot be as its creator wants it. */
function whyUnfitForLegacy(lifetime: Lifetime, sharing: Sharing): string | undefined {
  if (lifetime === "pinned")
    return "legacy memory ends with its owner, and a pinned object does not";
  if (sharing.with === "private") return undefined;
  return "other users could write to all of the legacy memory, whatever their access";
}
