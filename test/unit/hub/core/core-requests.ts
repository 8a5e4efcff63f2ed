/** Requests that the tests of the core make again and again. */
import type { Lifetime } from "../../../../src/wire/messages.js";
import type { CoreRig } from "../../../support/core-rig.js";
import { hostArray } from "../../../support/messages.js";

export function create(
  rig: CoreRig,
  session: number,
  name: string,
  lifetime: Lifetime = "held",
  descriptor = hostArray,
) {
  const fds =
    descriptor.content.kind === "bundle" ? [rig.fd(), rig.fd({ byteLength: 200 })] : [rig.fd()];
  const result = rig.result(session, "create", { name, lifetime, descriptor }, fds);
  return { object: result.object as number, lease: result.lease as number, fds };
}

export function published(
  rig: CoreRig,
  session: number,
  name: string,
  lifetime: Lifetime = "held",
  descriptor = hostArray,
) {
  const made = create(rig, session, name, lifetime, descriptor);
  rig.result(session, "publish", { object: made.object });
  return made;
}

export function names(rig: CoreRig, session: number): string[] {
  return (rig.result(session, "list", {}).objects as { name: string }[]).map(({ name }) => name);
}

export const READ = { access: "read", wait: true } as const;
export const READ_NOW = { access: "read", wait: false } as const;
