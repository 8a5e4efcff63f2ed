/** Lists all shared objects. The hub sends them one page at a time. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { HeldObject, ObjectSummary } from "../../wire/messages.js";
import type { HubLink } from "../connection/hub-link.js";

/** Returns the objects whose names begin with `prefix`, sorted by name. @throws INVALID_MESSAGE */
export async function listObjects(
  link: HubLink,
  deadline: Deadline,
  prefix = "",
): Promise<ObjectSummary[]> {
  return allPages(link, () => deadline, prefix, {});
}

/**
 * Everything that is shared, each object with its holders.
 * @param deadline called for each page
 */
export async function listHolders(link: HubLink, deadline: () => Deadline): Promise<HeldObject[]> {
  return allPages(link, deadline, "", { holders: true });
}

async function allPages(
  link: HubLink,
  deadline: () => Deadline,
  prefix: string,
  fields: { readonly holders?: boolean },
): Promise<HeldObject[]> {
  const objects: HeldObject[] = [];
  // WHY without its last letter: a page begins after a name, and the prefix may be a name itself.
  let after = prefix.length > 1 ? prefix.slice(0, -1) : undefined;
  for (;;) {
    const from = after === undefined ? {} : { after };
    const page = await link.request("list", { ...fields, ...from }, deadline());
    objects.push(...page.objects.filter(({ name }) => name.startsWith(prefix)));
    const last = page.objects.at(-1)?.name ?? "";
    if (page.next === null || (last > prefix && !last.startsWith(prefix))) return objects;
    // The same page again and again would fill this process's memory until the deadline.
    if (after !== undefined && page.next <= after) {
      const found = `the page after "${after}" is followed by that after "${page.next}"`;
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        `Cannot list what is shared: ${found}, wanted a later name`,
      );
    }
    after = page.next;
  }
}
