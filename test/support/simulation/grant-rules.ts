/** Rules for requests that bring or give memory: restored leases and granted opens. */
import assert from "node:assert/strict";
import type { RequestOf } from "../../../src/wire/messages.js";
import { freePlaces, givenTo, partsRefusal, roleRefusal } from "./channel-rules.js";
import type { Judge } from "./judge.js";
import { bringBack, hasOwnFile, isReady, linkRefusal, mayOpen } from "./memory-rules.js";
import type { Model, ModelObject, ModelSession } from "./model.js";
import type { Held } from "./world.js";

export interface Event {
  readonly model: Model;
  readonly judge: Judge;
  readonly nowMs: number;
  readonly diskFull: boolean;
  readonly fdTableFull: boolean;
  readonly hasKeeper: boolean;
  readonly isKept: (object: number) => boolean;
}

export function restore(
  event: Event,
  session: ModelSession,
  message: RequestOf<"restore">,
  held: readonly Held[],
) {
  const { model, judge } = event;
  const { id } = session.connection;
  const lease = session.leases.get(message.lease);
  if (lease === undefined) return judge.fails(id, message.id, "NOT_FOUND");
  session.unrestored?.delete(message.lease);
  if (held.length > 0 && (lease.role === "reader" || lease.role === "observer")) {
    const refusal = partsRefusal(lease, held);
    if (refusal !== undefined) return judge.fails(id, message.id, refusal);
    model.keepParts(lease);
    return judge.ok(id, message.id);
  }
  const brought =
    held.length === 0 ? undefined : bringBack(lease.object, session, held, event.fdTableFull);
  if (typeof brought === "string") return judge.fails(id, message.id, brought);
  judge.ok(id, message.id);
  if (brought === undefined) return;
  model.supply(lease.object, brought);
  grantWaiting(event, lease.object);
}

/**
 * Grants all waiting opens of a name that can now be opened. Sessions come in order of arrival,
 * each with all its waits.
 */
export function grantWaiting(event: Event, object: ModelObject) {
  if (!object.named || !isReady(object)) return;
  const waits = [...(event.model.waits.get(object.name)?.values() ?? [])].flatMap((ofSession) => [
    ...ofSession,
  ]);
  for (const wait of waits) {
    event.model.endWait(wait);
    grant(event, wait.session, wait.request, object);
  }
}

export function grant(
  event: Event,
  session: ModelSession,
  message: RequestOf<"open">,
  object: ModelObject,
) {
  const { model, judge } = event;
  const { id } = session.connection;
  const { access } = message;
  const [memory] = object.memory ?? [];
  assert.ok(memory !== undefined && object.published);
  const isHost = hasOwnFile(object.descriptor);
  if (!mayOpen(object, session, access)) return judge.fails(id, message.id, "PERMISSION_DENIED");
  const ofLink = linkRefusal(model, object, session, message.role);
  if (ofLink !== undefined) return judge.fails(id, message.id, ofLink);
  const wrongRole = roleRefusal(object, message);
  if (wrongRole !== undefined) return judge.fails(id, message.id, wrongRole);
  const isTimeline = object.descriptor.content.kind === "timeline";
  const isMark = object.descriptor.mechanism === "legacy";
  const isReadOnly =
    (isTimeline && message.role !== "writer") || (isHost && !isMark && !memory.writable);
  if (access === "read-write" && isReadOnly) return judge.fails(id, message.id, "READ_ONLY");
  const { role } = message;
  const opensAnew =
    role === undefined
      ? isHost && memory.writable && (access === "read" || isMark)
      : role !== "writer";
  if (event.fdTableFull && opensAnew) return judge.fails(id, message.id, "TOO_MANY_FDS");
  const refusal = model.refusal(session.tally, session.peer.uid, { leases: 1 });
  if (refusal !== undefined) return judge.fails(id, message.id, "LIMIT_EXCEEDED", refusal);
  if (event.diskFull) return judge.fails(id, message.id, "DISK_FULL");
  const place = role === "reader" ? freePlaces(object)[0] : undefined;
  const given = givenTo(object, role, place);
  const { result, fds } = judge.ok(id, message.id, given.length);
  assert.deepEqual([result.object, result.place], [object.id, place]);
  assert.ok(
    fds.every(({ file }, index) => file === given[index]?.file),
    "the reply has the object's memory",
  );
  if (isHost && role === undefined)
    assert.equal(fds[0]?.writable, access === "read-write" && !isMark);
  const lease = judge.fresh(result.lease);
  if (role !== undefined) checkGiven(fds, given, lease, { isHost, place });
  // The next owner of a timeline clears the mark.
  if (isTimeline && role === "writer") memory.file.awaited = false;
  model.addLease(lease, { kind: access, role, place }, session, object);
  session.recorded = true;
}

function checkGiven(
  fds: readonly Held[],
  given: readonly Held[],
  lease: number,
  { isHost, place }: { readonly isHost: boolean; readonly place: number | undefined },
) {
  // WHY not memory of a GPU and bells: there are no read-only descriptors of them.
  const isTold = (index: number) =>
    !given[index]?.file.isBell && (index > 0 || isHost || given.length === 3);
  for (const [index, { writable }] of fds.entries())
    if (isTold(index)) assert.equal(writable, given[index]?.writable, `descriptor ${index}`);
  if (place !== undefined)
    assert.equal(fds[3]?.file.lease, lease, "the seat begins before the client learns of it");
}
