/** The names of a service, and what a list of names says of its offers and links. */
import { randomBytes } from "node:crypto";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { offerPrefix, partsOf, requestName } from "../wire/link-names.js";
import { checkName } from "../wire/names.js";

export { linkNameOf, offerPrefix, requestName } from "../wire/link-names.js";

/** The longest suffix after the service's name. */
const SUFFIX_BYTES_MAX = 64;

/** An offer of a worker that no client has claimed yet, judging by its name. */
export interface FoundOffer {
  readonly worker: string;
  readonly name: string;
}

/** @throws INVALID_NAME */
export function checkServiceName(name: string): string {
  checkName(name);
  if (name.length <= limits.nameBytesMax - SUFFIX_BYTES_MAX) return name;
  const wanted = `at most ${limits.nameBytesMax - SUFFIX_BYTES_MAX}`;
  throw new CudaIpcError(
    "INVALID_NAME",
    `Cannot use "${name}" as the name of a service: it has ${name.length} bytes, wanted ${wanted}`,
  );
}

/** A worker id that no other worker has. */
export function newWorkerId(): string {
  return `${process.pid.toString(36)}${randomBytes(8).toString("hex")}`;
}

export function replyName(service: string, worker: string, number: number): string {
  return `${offerPrefix(service)}${worker}:${number}`;
}

/**
 * Replaces the names of a service's channels in a message by the service and the worker: no user
 * has given them. Returns the error.
 */
export function ofService(error: unknown, service: string): unknown {
  if (!(error instanceof CudaIpcError) || !error.message.includes(offerPrefix(service)))
    return error;
  const link = `"${service.replaceAll(".", "\\.")}:(w[0-9a-z]{1,24}):\\d{1,15}(?::req)?"`;
  const own = (text: string) => text.replaceAll(new RegExp(link, "g"), `"${service}" (worker $1)`);
  const { stack } = error;
  error.message = own(error.message);
  if (typeof stack === "string") error.stack = own(stack);
  return error;
}

/** The workers that have a channel of the service among these names. */
export function workersAmong(service: string, names: Iterable<string>): Set<string> {
  const workers = new Set<string>();
  for (const name of names) {
    const { worker } = partsOf(service, name);
    if (worker !== undefined) workers.add(worker);
  }
  return workers;
}

/**
 * The unclaimed offers among these names: those without a request channel. Only the newest of each
 * worker.
 */
export function offersAmong(service: string, names: Iterable<string>): FoundOffer[] {
  const all = new Set(names);
  const newest = new Map<string, { readonly number: number; readonly name: string }>();
  for (const name of all) {
    const { worker, digits, requests } = partsOf(service, name);
    if (worker === undefined || requests !== undefined || all.has(requestName(name))) continue;
    const number = Number(digits);
    if (number > (newest.get(worker)?.number ?? -1)) newest.set(worker, { number, name });
  }
  return [...newest].map(([worker, { name }]) => ({ worker, name }));
}

/** How many links each worker has among these names: its request channels. */
export function linksOf(service: string, names: Iterable<string>): ReadonlyMap<string, number> {
  const links = new Map<string, number>();
  for (const name of names) {
    const { worker, requests } = partsOf(service, name);
    if (worker === undefined || requests === undefined) continue;
    links.set(worker, (links.get(worker) ?? 0) + 1);
  }
  return links;
}
