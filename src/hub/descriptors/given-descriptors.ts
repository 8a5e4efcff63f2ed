/**
 * Chooses the descriptors for a client that opens an object: as they are, or reopened read-only.
 */
import { releaseAll } from "../../base/scope.js";
import { channelFdsAt } from "../../ring/channel-fds.js";
import { endsWithOwner, hasOwnFile } from "../../wire/schemas.js";
import type { HubPorts } from "../core/ports.js";
import type { Grant, ObjectMemory, SharedObject } from "../objects/shared-object.js";
import { isPage } from "./check-channel.js";

/** Descriptors to send. `close` closes those that were reopened for it. */
export interface Given<Fd> {
  readonly fds: readonly Fd[];
  close(): void;
}

type Ports<Fd> = Pick<HubPorts<Fd>, "reopenReadOnly" | "closeFd">;

/** Requires that the object has its memory. */
export function givenDescriptors<Fd>(
  object: SharedObject<Fd>,
  grant: Grant,
  ports: Ports<Fd>,
): Given<Fd> {
  const twins: Fd[] = [];
  const close = () => releaseAll(twins.map((twin) => () => ports.closeFd(twin)));
  const readOnly = (fd: Fd): Fd => {
    const twin = ports.reopenReadOnly(fd);
    twins.push(twin);
    return twin;
  };
  try {
    return { fds: chosen(object, grant, readOnly), close };
  } catch (error) {
    close();
    throw error;
  }
}

function chosen<Fd>(
  object: SharedObject<Fd>,
  { kind, role, seat }: Grant,
  readOnly: (fd: Fd) => Fd,
): readonly Fd[] {
  const { descriptor } = object;
  const { fds, writable } = object.memory as ObjectMemory<Fd>;
  const [memory, ...others] = fds;
  // GPU memory has no read-only descriptors. Only the owner and the hub end a mark.
  const isGuarded =
    hasOwnFile(descriptor) && writable && (kind === "read" || endsWithOwner(descriptor));
  const at = (index: number): Fd => fds[index] as Fd;
  if (role === "reader") {
    const data = isGuarded ? readOnly(memory) : memory;
    const own = [at(channelFdsAt.page(seat ?? 0)), at(channelFdsAt.bell(seat ?? 0))];
    return [data, readOnly(at(channelFdsAt.control)), at(channelFdsAt.roomBell), ...own];
  }
  if (role === "observer") {
    const pages = others.filter((_, index) => isPage(index + 1));
    return [readOnly(at(channelFdsAt.control)), ...pages.map(readOnly)];
  }
  return [isGuarded ? readOnly(memory) : memory, ...others];
}
