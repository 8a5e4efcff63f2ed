/** Where a web server listens: a host that is an IP address or `localhost`, and a port. */
import { isIPv4, isIPv6 } from "node:net";

export interface WebAddress {
  /** An IP address without brackets, or `localhost`. */
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
}

/**
 * Parses `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `8080`, which means 127.0.0.1.
 * Undefined for anything else. Other names are not resolved, so the address means what it says.
 */
export function parseWebAddress(text: string): WebAddress | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]:|([^:[\]]+):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return undefined;
  if (bracketed !== undefined) return isIPv6(bracketed) ? { host: bracketed, port } : undefined;
  const host = plain ?? "127.0.0.1";
  return isIPv4(host) || host === "localhost" ? { host, port } : undefined;
}

/** Whether only programs on this machine can connect. */
export function isLoopback({ host }: WebAddress): boolean {
  return host === "localhost" || host === "::1" || /^127\./.test(host);
}

/** As in a URL: `127.0.0.1:8080`, `[::1]:8080`. */
export function webAddressText({ host, port }: WebAddress): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}
