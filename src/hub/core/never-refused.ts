/** The requests that rate limiting does not refuse. */
import type { Request } from "../../wire/messages.js";

/** Exempt from rate limiting: refusing one of these would leak a lease or lose state. */
export const NEVER_REFUSED: ReadonlySet<Request["op"]> = new Set([
  "release",
  "cancel",
  "drain",
  "bye",
  "restore",
  "restored",
]);
