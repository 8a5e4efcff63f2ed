/** Questions about all links of a client. */
import { heldHere } from "../base/held-here.js";
import type { ClientLink } from "./client-link.js";

export function leastLoaded(
  links: ReadonlySet<ClientLink>,
  isFar: boolean,
): ClientLink | undefined {
  let best: ClientLink | undefined;
  for (const link of links) {
    if (link.isFar !== isFar || !link.hasRoom) continue;
    if (link.load < (best?.load ?? Number.POSITIVE_INFINITY)) best = link;
  }
  return best;
}

/** For the error of a request for which no link has room. */
export function whyNoRoom(links: ReadonlySet<ClientLink>): string {
  const workers = links.size === 1 ? "its worker has" : `each of its ${links.size} workers has`;
  const held = [...links].reduce((sum, link) => sum + link.held, 0);
  const found = held > 0 ? `; ${heldHere(held, "reply")}` : ", or its replies are not released";
  return `${workers} no room for another request of this client${found}`;
}
