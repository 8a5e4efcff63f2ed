/** Lists all shared objects. The hub sends them one page at a time. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { HeldObject } from "../../wire/messages.js";
import type { HubLink } from "../connection/hub-link.js";

export interface ListOptions {
  readonly prefix?: string | undefined;
  /** Objects without a name, too. Every entry has its holders then. */
  readonly all?: boolean | undefined;
}

/**
 * Returns the objects whose names begin with `prefix`, sorted by name. With `all`, those that have
 * lost such a name follow, the oldest first.
 * @throws INVALID_MESSAGE
 */
export async function listObjects(
  link: HubLink,
  deadline: Deadline,
  { prefix = "", all = false }: ListOptions,
): Promise<HeldObject[]> {
  const begin = () => deadline;
  if (!all) return namedPages(link, begin, prefix, {});
  const named = await namedPages(link, begin, prefix, { holders: true });
  const nameless = await listNameless(link, begin);
  return [...named, ...nameless.filter(({ name }) => name.startsWith(prefix))];
}

/**
 * Everything that has a name, each object with its holders.
 * @param deadline called for each page
 */
export async function listHolders(link: HubLink, deadline: () => Deadline): Promise<HeldObject[]> {
  return namedPages(link, deadline, "", { holders: true });
}

/**
 * Everything that has no name, each object with its holders.
 * @param deadline called for each page
 */
export async function listNameless(link: HubLink, deadline: () => Deadline): Promise<HeldObject[]> {
  return pages(link, deadline, { holders: true, nameless: true }, undefined, () => false);
}

async function namedPages(
  link: HubLink,
  deadline: () => Deadline,
  prefix: string,
  fields: { readonly holders?: boolean },
): Promise<HeldObject[]> {
  // WHY without its last letter: a page begins after a name, and the prefix may be a name itself.
  const after = prefix.length > 1 ? prefix.slice(0, -1) : undefined;
  const isPast = (name: string) => name > prefix && !name.startsWith(prefix);
  const found = await pages(link, deadline, fields, after, isPast);
  return found.filter(({ name }) => name.startsWith(prefix));
}

/** @param isPast whether no page after this name is wanted */
async function pages(
  link: HubLink,
  deadline: () => Deadline,
  fields: { readonly holders?: boolean; readonly nameless?: boolean },
  first: string | undefined,
  isPast: (name: string) => boolean,
): Promise<HeldObject[]> {
  const objects: HeldObject[] = [];
  let after = first;
  for (;;) {
    const from = after === undefined ? {} : { after };
    const page = await link.request("list", { ...fields, ...from }, deadline());
    objects.push(...page.objects);
    if (page.next === null || isPast(page.objects.at(-1)?.name ?? "")) return objects;
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
