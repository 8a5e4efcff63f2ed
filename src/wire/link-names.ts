/**
 * The names of a service's channels. A worker's replies use `NAME:w<worker>:<n>`, by which clients
 * find it. The requests use the same name with `:req`. Both belong to one link of one client, and
 * no name is used for a second link.
 */

const REQUESTS = ":req";
const REST = /^([0-9a-z]{1,24}):(\d{1,15})(:req)?$/;

/** The prefix of all offers of a service. */
export function offerPrefix(service: string): string {
  return `${service}:w`;
}

export function requestName(reply: string): string {
  return `${reply}${REQUESTS}`;
}

/** What the name of a channel says if the channel belongs to a link of a service. */
export interface LinkName {
  readonly service: string;
  readonly worker: string;
  /** The name of the link's replies. */
  readonly reply: string;
  readonly isRequests: boolean;
}

/** Undefined if no service makes such a name. */
export function linkNameOf(name: string): LinkName | undefined {
  const at = name.lastIndexOf(":w");
  if (at < 1) return undefined;
  const service = name.slice(0, at);
  const { worker, requests } = partsOf(service, name);
  if (worker === undefined) return undefined;
  const isRequests = requests !== undefined;
  const reply = isRequests ? name.slice(0, -REQUESTS.length) : name;
  return { service, worker, reply, isRequests };
}

export function partsOf(
  service: string,
  name: string,
): { readonly [key in "worker" | "digits" | "requests"]: string | undefined } {
  const prefix = offerPrefix(service);
  const [, worker, digits, requests] =
    REST.exec(name.startsWith(prefix) ? name.slice(prefix.length) : "") ?? [];
  return { worker, digits, requests };
}
