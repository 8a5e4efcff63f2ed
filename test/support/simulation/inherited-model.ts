/** The model of a hub that starts from a journal. */

import type { HubPolicy } from "../../../src/hub/limits/policy.js";
import type { HubState } from "../../../src/hub/restart/hub-records.js";
import type { EarlierConnection } from "../../../src/hub/restart/inheritance.js";
import { usesOf } from "./memory-rules.js";
import { Model } from "./model.js";
import type { File, Held } from "./world.js";

export interface Left {
  readonly state: HubState;
  readonly connections: readonly EarlierConnection[];
  /** By object, the memory whose descriptors the keeper has. */
  readonly kept: ReadonlyMap<number, readonly Held[]>;
  /** The files of an object's memory at its creation. */
  readonly files: (object: number) => readonly File[];
}

export function inheritedModel(
  policy: HubPolicy,
  { state, connections, kept, files }: Left,
): Model {
  const model = new Model(policy);
  for (const { id, peer, session } of connections) {
    const connection = model.connect(id, peer);
    connection.attached = false;
    if (session !== null) model.begin(session.id, connection, true);
  }
  for (const { record, published, named } of state.objects.values()) {
    const { id, name, lifetime, sharing, descriptor, owner, writable } = record;
    model.addObject({
      id,
      name,
      pinned: lifetime === "pinned",
      sharing,
      descriptor,
      owner,
      files: files(id),
      writable,
      uses: usesOf(descriptor, files(id)[0]?.facts.inode as string),
      leases: new Map(),
      memory: kept.get(id),
      payer: owner.uid,
      ownerLease: undefined,
      replace: record.replace,
      serviceUsers: record.serviceUsers,
      published,
      named,
    });
  }
  for (const { id, kind, object, session, role, place } of state.leases.values()) {
    const [shared, holder] = [model.objects.get(object), model.sessions.get(session)];
    if (shared !== undefined && holder !== undefined)
      model.addLease(id, { kind, role, place: place ?? undefined }, holder, shared);
  }
  return model;
}
