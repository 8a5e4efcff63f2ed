/**
 * What a hub must answer to each request. Each rule reads the answers in their required order, and
 * tells the model what happened.
 */

import assert from "node:assert/strict";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Replace, Request, RequestOf } from "../../../src/wire/messages.js";
import { isValidName } from "../../../src/wire/names.js";
import { hasWriter } from "./channel-rules.js";
import { type Event, grant, grantWaiting, restore } from "./grant-rules.js";
import { isSameProcess } from "./identity.js";
import {
  checkCreated,
  decidedUsers,
  hasOwnFile,
  isOfOthers,
  isReady,
  mayManage,
  requestsOfNobody,
  usesOf,
  workerOfRequests,
} from "./memory-rules.js";
import { isDrained, type ModelConnection, type ModelObject, type ModelSession } from "./model.js";
import { changes, clients, inspect, list, status } from "./report-rules.js";
import type { Held } from "./world.js";

/** Exempt from rate limiting: refusing one of these would leak a lease or lose state. */
const NEVER_REFUSED: ReadonlySet<string> = new Set([
  "release",
  "cancel",
  "drain",
  "bye",
  "restore",
  "restored",
]);

/** Applies the rule of a request that the hub could read. */
export function request(
  event: Event,
  connection: ModelConnection,
  message: Request,
  held: readonly Held[],
) {
  const { judge, model } = event;
  const { session } = connection;
  if (session === undefined && message.op !== "hello") {
    judge.fails(connection.id, message.id, "INVALID_MESSAGE");
    judge.hangUps.push(connection.id);
    return;
  }
  if (isTooFast(event, connection, message)) return;
  if (held.length !== wantedFds(message, held.length)) {
    judge.fails(connection.id, message.id, "INVALID_MESSAGE");
  } else if (message.op === "hello") {
    hello(event, connection, message);
  } else if (message.op === "stop" || message.op === "restart") {
    rule(event, connection, message);
  } else if (message.op === "bye") {
    model.ended(connection.id);
    drained(event);
    judge.ok(connection.id, message.id);
    judge.hangUps.push(connection.id);
  } else ofSession(event, session as ModelSession, message, held);
}

function ofSession(event: Event, session: ModelSession, message: Request, held: readonly Held[]) {
  const { judge, model } = event;
  const { id } = session.connection;
  switch (message.op) {
    case "create":
      return create(event, session, message, held);
    case "publish":
      return publish(event, session, message);
    case "open":
      return open(event, session, message);
    case "cancel":
      return cancel(event, session, message);
    case "release": {
      const lease = session.leases.get(message.lease);
      if (lease === undefined) return judge.fails(id, message.id, "NOT_FOUND");
      model.endLease(lease);
      break;
    }
    case "drain":
      return drain(event, session, message);
    case "restore":
      return restore(event, session, message, held);
    case "restored": {
      const forgotten = [...(session.unrestored ?? [])];
      session.unrestored = undefined;
      for (const lease of forgotten) {
        const found = session.leases.get(lease);
        if (found !== undefined) model.endLease(found);
      }
      break;
    }
    case "remove": {
      const object = model.names.get(message.name);
      if (!isValidName(message.name)) return judge.fails(id, message.id, "INVALID_NAME");
      if (object === undefined) return judge.fails(id, message.id, "NOT_FOUND");
      if (!mayManage(object, session)) return judge.fails(id, message.id, "PERMISSION_DENIED");
      if ((message.object ?? object.id) !== object.id)
        return judge.fails(id, message.id, "STALE_HANDLE");
      model.remove(object);
      break;
    }
    case "inspect":
      return inspect(event, session, message);
    case "list":
      return list(event, session, message);
    case "changes":
      return changes(event, session, message);
    case "clients":
      return clients(event, session, message);
    case "status":
      return status(event, session, message);
    case "disconnect":
      return disconnect(event, session, message);
  }
  drained(event);
  judge.ok(id, message.id);
}

/** Checks the answers to drains and opens that the current event has ended. */
export function drained({ model, judge }: Pick<Event, "model" | "judge">): void {
  for (const { connection, request, failure } of model.drained.splice(0)) {
    if (failure === undefined) judge.ok(connection, request);
    else judge.fails(connection, request, failure);
  }
}

/** Whether the client is over its rate. Then the hub must pause it. */
function isTooFast(
  { model, judge, nowMs }: Event,
  { id, peer, session }: ModelConnection,
  message: Request,
): boolean {
  const tallies = [...(session ? [session.tally] : []), model.user(peer.uid), model.hub];
  const waits = tallies.map((tally) => tally.waitMs(nowMs));
  const longest = Math.max(...waits);
  if (longest === 0) {
    for (const tally of tallies) tally.countMessage();
    return false;
  }
  judge.pauses.push({ connection: id, milliseconds: Math.ceil(longest) });
  if (NEVER_REFUSED.has(message.op)) return false;
  const source = tallies[waits.indexOf(longest)]?.source;
  judge.fails(id, message.id, "LIMIT_EXCEEDED", {
    limit: `${source}.messagesPerSecond`,
    found: "",
  });
  return true;
}

function wantedFds(message: Request, found: number): number {
  if (message.op === "create") {
    const { content } = message.descriptor;
    return content.kind === "channel"
      ? 3 + 2 * content.readersMax
      : content.kind === "bundle"
        ? 2
        : 1;
  }
  return message.op === "restore" ? found : 0;
}

function hello({ model, judge }: Event, connection: ModelConnection, message: RequestOf<"hello">) {
  if (connection.session !== undefined)
    return judge.fails(connection.id, message.id, "INVALID_MESSAGE");
  const found = model.sessions.get(message.resume?.session ?? 0);
  const earlier = found && isSameProcess(found.peer, connection.peer) ? found : undefined;
  const resumes = earlier !== undefined && !earlier.disconnected;
  const refusal = model.refusal(undefined, connection.peer.uid, { clients: 1 });
  if (!resumes && !connection.counted && refusal !== undefined)
    return judge.fails(connection.id, message.id, "LIMIT_EXCEEDED", refusal);
  const { result } = judge.ok(connection.id, message.id);
  if (resumes) {
    assert.deepEqual([result.resumed, result.session], [true, earlier.id]);
    judge.forgets.push(model.resume(earlier, connection));
    return;
  }
  assert.equal(result.resumed, false);
  model.begin(judge.fresh(result.session), connection);
  if (earlier === undefined) return;
  judge.forgets.push(earlier.connection.id);
  model.ended(earlier.connection.id);
}

function disconnect(
  { model, judge }: Event,
  { connection: { id }, peer }: ModelSession,
  message: RequestOf<"disconnect">,
) {
  const target = model.sessions.get(message.session);
  const seesAll = peer.uid === model.policy.uid || peer.uid === 0;
  if (target === undefined || !(seesAll || target.peer.uid === peer.uid))
    return judge.fails(id, message.id, "NOT_FOUND");
  if (!target.disconnected && target.connection.attached) {
    judge.fails(target.connection.id, 0, "DISCONNECTED");
    judge.hangUps.push(target.connection.id);
  }
  model.disconnect(target);
  judge.ok(id, message.id);
}

function rule(
  { model, judge, hasKeeper }: Event,
  { id, peer }: ModelConnection,
  message: RequestOf<"stop" | "restart">,
) {
  if (peer.uid !== model.policy.uid && peer.uid !== 0)
    return judge.fails(id, message.id, "PERMISSION_DENIED");
  if (message.op === "stop") {
    const isUsed = model.objects.size > 0 || model.attached > 1;
    if (isUsed && !message.force) return judge.fails(id, message.id, "HUB_IN_USE");
    judge.stops += 1;
  } else if (!hasKeeper) return judge.fails(id, message.id, "NO_KEEPER");
  else judge.restarts += 1;
  judge.ok(id, message.id);
}

function create(
  event: Event,
  session: ModelSession,
  message: RequestOf<"create">,
  held: readonly Held[],
) {
  const { model, judge } = event;
  const { id } = session.connection;
  const { name, descriptor, lifetime, sharing = { with: "private", access: "read" } } = message;
  if (!isValidName(name)) return judge.fails(id, message.id, "INVALID_NAME");
  const isOwn = lifetime === "held" && sharing.with === "private";
  if (descriptor.mechanism === "legacy" && !isOwn)
    return judge.fails(id, message.id, "UNSUPPORTED");
  const { replace } = message;
  const found = model.names.get(name);
  const notReplaced =
    found === undefined || replace === undefined
      ? undefined
      : whyNotReplaced(found, descriptor, replace, session);
  if (notReplaced !== undefined) return judge.fails(id, message.id, notReplaced);
  if (isOfOthers(model, message, session)) return judge.fails(id, message.id, "PERMISSION_DENIED");
  const { uid, gid } = session.peer;
  const { workers = [] } = message;
  const decided = decidedUsers(model, message, [...new Set([uid, ...workers])]);
  if (decided === undefined && message.workers !== undefined)
    return judge.fails(id, message.id, "INVALID_MESSAGE");
  const worker = workerOfRequests(model, message, session);
  if (worker === null) return judge.fails(id, message.id, "PERMISSION_DENIED");
  const serviceUsers = worker === undefined ? decided : [worker];
  if (!checkCreated(descriptor, sharing, held))
    return judge.fails(id, message.id, "INVALID_DESCRIPTOR");
  if (found !== undefined && replace === undefined)
    return judge.fails(id, message.id, "NAME_TAKEN");
  const uses = usesOf(descriptor, held[0]?.file.facts.inode as string);
  const refusal = model.refusal(session.tally, uid, { ...uses, leases: 1 });
  if (refusal !== undefined) return judge.fails(id, message.id, "LIMIT_EXCEEDED", refusal);
  // WHY not counted: the hub may or may not use up a number for a creation that fails here.
  if (event.diskFull) return judge.fails(id, message.id, "DISK_FULL");
  const { result } = judge.ok(id, message.id);
  const object: ModelObject = {
    id: judge.fresh(result.object),
    name,
    pinned: lifetime === "pinned",
    sharing,
    descriptor,
    owner: { uid, gid },
    files: held.map(({ file }) => file),
    writable: hasOwnFile(descriptor) && held[0]?.writable === true,
    uses,
    leases: new Map(),
    memory: held,
    payer: uid,
    ownerLease: undefined,
    replace,
    serviceUsers,
    published: false,
    named: replace === undefined,
  };
  model.addObject(object);
  const role = hasWriter(object) ? "writer" : undefined;
  model.addLease(judge.fresh(result.lease), { kind: "owner", role }, session, object);
  session.recorded = true;
}

function whyNotReplaced(
  found: ModelObject,
  { content }: Descriptor,
  replace: Replace,
  session: ModelSession,
): ErrorCode | undefined {
  if (typeof replace === "number" && found.id !== replace) return "NAME_TAKEN";
  if (!mayManage(found, session)) return "PERMISSION_DENIED";
  const sameKind = found.descriptor.content.kind === content.kind;
  return replace === true && !sameKind ? "WRONG_KIND" : undefined;
}

function publish(event: Event, session: ModelSession, message: RequestOf<"publish">) {
  const { model, judge } = event;
  const { id } = session.connection;
  const object = model.objects.get(message.object);
  if (object === undefined) return judge.fails(id, message.id, "NOT_FOUND");
  if (object.ownerLease?.session !== session) return judge.fails(id, message.id, "NOT_OWNER");
  const found = model.names.get(object.name);
  if (!object.published && !object.named) {
    const { replace, descriptor } = object;
    if (replace === undefined)
      return judge.fails(id, message.id, found === undefined ? "NOT_FOUND" : "NAME_TAKEN");
    const notReplaced = found && whyNotReplaced(found, descriptor, replace, session);
    if (notReplaced !== undefined) return judge.fails(id, message.id, notReplaced);
    if (isOfOthers(model, object, session) || workerOfRequests(model, object, session) === null)
      return judge.fails(id, message.id, "PERMISSION_DENIED");
  }
  if (event.diskFull && !object.published) return judge.fails(id, message.id, "DISK_FULL");
  if (!object.published && object.replace !== undefined) {
    object.serviceUsers =
      decidedUsers(model, object, object.serviceUsers ?? []) ?? object.serviceUsers;
    model.takeName(object);
  }
  if (event.isKept(object.id)) judge.ok(id, message.id);
  else model.publishes.push({ object: object.id, connection: id, request: message.id });
  object.published = true;
  grantWaiting(event, object);
}

function drain(event: Event, session: ModelSession, message: RequestOf<"drain">) {
  const { model, judge } = event;
  const { id } = session.connection;
  const object = model.objects.get(message.object);
  if (object === undefined) return judge.fails(id, message.id, "NOT_FOUND");
  if (object.ownerLease?.session !== session) return judge.fails(id, message.id, "NOT_OWNER");
  model.remove(object);
  if (isDrained(object)) return judge.ok(id, message.id);
  model.endDrain(object, false);
  drained(event);
  model.drains.set(object, { session, request: message.id });
}

function open(event: Event, session: ModelSession, message: RequestOf<"open">) {
  const { model, judge } = event;
  const { id } = session.connection;
  if (!isValidName(message.name)) return judge.fails(id, message.id, "INVALID_NAME");
  const wanted =
    message.role === undefined ? message.access : message.role === "writer" ? "read-write" : "read";
  if (message.access !== wanted) return judge.fails(id, message.id, "INVALID_MESSAGE");
  const object = model.names.get(message.name);
  if (object !== undefined && isReady(object)) return grant(event, session, message, object);
  if (!message.wait || requestsOfNobody(model, message) === message.name)
    return judge.fails(id, message.id, "NOT_FOUND");
  if (session.waits.has(message.id)) return judge.fails(id, message.id, "INVALID_MESSAGE");
  const refusal = model.refusal(session.tally, session.peer.uid, { waitingOpens: 1 });
  if (refusal !== undefined) return judge.fails(id, message.id, "LIMIT_EXCEEDED", refusal);
  model.addWait(session, message);
}

function cancel({ model, judge }: Event, session: ModelSession, message: RequestOf<"cancel">) {
  const { id } = session.connection;
  const wait = session.waits.get(message.request);
  if (wait !== undefined) {
    judge.fails(id, message.request, "ABORTED");
    model.endWait(wait);
  }
  judge.ok(id, message.id);
}
