/**
 * Refuses requests that another web site made a browser send. A site that rebinds its own name to
 * this machine sends that name as `Host`, and a site that posts here sends its own `Origin`.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIPv4, isIPv6 } from "node:net";

export interface HostRules {
  /** Names by which clients may call this server, beside IP addresses and `localhost`. */
  readonly names: readonly string[];
}

/** Why a request is refused, as a sentence. Undefined if it is not. */
export function refusalOf(
  method: string,
  headers: IncomingHttpHeaders,
  { names }: HostRules,
): string | undefined {
  const { host, origin } = headers;
  const name = hostName(host);
  if (host === undefined || name === undefined) return "The request has no valid Host.";
  if (!isSafeName(name) && !names.includes(name))
    return "This server does not answer for the name in Host.";
  const site = headers["sec-fetch-site"];
  const isRead = method === "GET" || method === "HEAD";
  if (origin === undefined) {
    if (!isRead) return "The request has no Origin.";
  } else if (origin !== `http://${host}` && origin !== `https://${host}`) {
    return "The request comes from another origin.";
  }
  if (!isRead && site !== undefined && site !== "same-origin")
    return "The request comes from another site.";
  return undefined;
}

/** In lower case and without the port. Undefined if the header is not a host. */
function hostName(host: string | undefined): string | undefined {
  const found = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(host ?? "");
  return found?.[1]?.toLowerCase();
}

/** WHY these: no DNS server can make them mean another machine than they say. */
function isSafeName(name: string): boolean {
  const address = /^\[(.*)\]$/.exec(name)?.[1];
  if (address !== undefined) return isIPv6(address);
  return isIPv4(name) || name === "localhost" || name.endsWith(".localhost");
}
