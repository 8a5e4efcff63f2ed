/** Who may open a channel as what: one writer, as many readers as there are places, and those who look on. */
import { CudaIpcError } from "../base/errors.js";
import type { RequestOf } from "../wire/messages.js";
import { freePlaces, type Grant, isChannel, type SharedObject } from "./shared-object.js";

type Open = RequestOf<"open">;

/**
 * What holds of a request whatever the object is.
 * @throws INVALID_MESSAGE
 */
export function checkRole({ name, role, access }: Open): void {
  const wanted = role === undefined ? access : role === "writer" ? "read-write" : "read";
  if (access === wanted) return;
  const found = `the role "${role}" came with access "${access}", wanted "${wanted}"`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot open "${name}": ${found}`);
}

/**
 * What is granted where this object can be opened in this way now.
 * @throws WRONG_KIND, READERS_FULL, IN_USE
 */
export function grantFor<Fd>(object: SharedObject<Fd>, { role, access }: Open): Grant {
  const { name, descriptor } = object;
  if (!isChannel(object)) {
    if (role === undefined) return { kind: access, role, place: undefined };
    const found = `it is of kind ${descriptor.content.kind}, which has no ${role}s`;
    throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as a channel: ${found}`);
  }
  if (role === undefined) {
    throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" without a role: it is a channel; use openChannel`);
  }
  if (role === "writer") checkNoWriter(object);
  return { kind: access, role, place: role === "reader" ? freePlace(object) : undefined };
}

function checkNoWriter<Fd>(object: SharedObject<Fd>): void {
  const { writer } = object.leases;
  if (writer === undefined) return;
  const { pid } = writer.session.peer;
  throw new CudaIpcError("IN_USE", `Cannot open "${object.name}" as its writer: process ${pid} is its writer`);
}

function freePlace<Fd>(object: SharedObject<Fd>): number {
  const [place] = freePlaces(object);
  if (place !== undefined) return place;
  const { content } = object.descriptor;
  const taken = content.kind === "channel" ? content.readersMax : 0;
  throw new CudaIpcError("READERS_FULL", `Cannot open "${object.name}": all places for readers are taken: ${taken}`);
}
