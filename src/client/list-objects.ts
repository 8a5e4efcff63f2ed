/** Everything that is shared, which a hub tells a page at a time. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { ObjectSummary } from "../wire/messages.js";
import type { HubLink } from "./hub-link.js";

/** In order of names. @throws INVALID_MESSAGE */
export async function listObjects(link: HubLink, deadline: Deadline): Promise<ObjectSummary[]> {
  const objects: ObjectSummary[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await link.request("list", after === undefined ? {} : { after }, deadline);
    objects.push(...page.objects);
    if (page.next === null) return objects;
    // WHY: a hub that gave the same page again and again would fill this process's memory until the deadline.
    if (after !== undefined && page.next <= after) {
      const found = `the page after "${after}" is followed by that after "${page.next}"`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot list what is shared: ${found}, wanted a later name`);
    }
    after = page.next;
  }
}
