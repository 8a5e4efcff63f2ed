/**
 * The names of a service's channels. A worker's replies use `NAME:w<worker>:<n>`, by which clients
 * find it. The requests use the same name with `:req`. Both belong to one link of one client, and
 * no name is used for a second link.
 */
import { randomBytes } from "node:crypto";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { checkName } from "../wire/names.js";

const REQUESTS = ":req";
/** The longest suffix after the service's name. */
const SUFFIX_BYTES_MAX = 64;
const REST = /^([0-9a-z]{1,24}):(\d{1,15})(:req)?$/;

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

export function requestName(reply: string): string {
  return `${reply}${REQUESTS}`;
}

/**
 * Replaces the names of a service's channels in a message by the service and the worker: no user
 * has given them. Returns the error.
 */
export function ofService(error: unknown, service: string): unknown {
  if (!(error instanceof CudaIpcError) || !error.message.includes(offerPrefix(service)))
    return error;
  const link = `"${service.replaceAll(".", "\\.")}:(w[0-9a-z]{1,24}):\\d{1,15}(?:${REQUESTS})?"`;
  const own = (text: string) => text.replaceAll(new RegExp(link, "g"), `"${service}" (worker $1)`);
  const { stack } = error;
  error.message = own(error.message);
  if (typeof stack === "string") error.stack = own(stack);
  return error;
}

/** The prefix of all offers of a service. */
export function offerPrefix(service: string): string {
  return `${service}:w`;
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
  return {
    service,
    worker,
    reply: isRequests ? name.slice(0, -REQUESTS.length) : name,
    isRequests,
  };
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

function partsOf(
  service: string,
  name: string,
): { readonly [key in "worker" | "digits" | "requests"]: string | undefined } {
  const prefix = offerPrefix(service);
  const [, worker, digits, requests] =
    REST.exec(name.startsWith(prefix) ? name.slice(prefix.length) : "") ?? [];
  return { worker, digits, requests };
}
