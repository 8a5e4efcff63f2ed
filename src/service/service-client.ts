/**
 * A client of a service. It sends each request to the least loaded worker of this machine, or of
 * another one if none here has room, and to another worker if that one dies or leaves. Requests
 * that no worker has room for wait in order.
 */
import { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode, withCallers } from "../base/errors.js";
import { StallWatch } from "../base/garbage.js";
import { defaults, limits } from "../base/limits.js";
import { checkFunction } from "../base/option-checks.js";
import { releaseAll } from "../base/scope.js";
import type { Hub } from "../client/hub.js";
import type { Ask, FillRequest, Outcome } from "./client-call.js";
import { type ClientChannels, ClientLink } from "./client-link.js";
import { leastLoaded, whyNoRoom } from "./client-links.js";
import { failureText } from "./failure-report.js";
import { operations } from "./service-diagnostics.js";
import type { ServiceMessage } from "./service-message.js";
import { checkServiceName, ofService } from "./service-names.js";
import {
  type ClientPlan,
  type ConnectServiceOptions,
  checkHub,
  checkRequest,
  clientPlan,
  type RequestOptions,
} from "./service-options.js";
import { WorkerSearch } from "./worker-search.js";

interface Waiter {
  readonly resolve: (link: ClientLink) => void;
  readonly reject: (error: CudaIpcError) => void;
  /** The link on which room is reserved for this request. */
  link: ClientLink | undefined;
}

export class ServiceClient {
  readonly name: string;
  readonly #hub: Hub;
  readonly #plan: ClientPlan;
  readonly #search: WorkerSearch;
  readonly #links = new Set<ClientLink>();
  /** Links that have ended, with replies that are still held. */
  readonly #lingering = new Set<ClientLink>();
  readonly #waiting = new Set<Waiter>();
  readonly #stall = new StallWatch(() => this.#heldUpAt);
  /** Counts what may have made room. */
  #rooms = 0;
  #retried = 0;
  #closing: Promise<void> | undefined;

  /** Use `connectService()`. */
  constructor(hub: Hub, name: string, options: ConnectServiceOptions) {
    this.name = checkServiceName(name);
    this.#hub = hub;
    this.#plan = clientPlan(options);
    this.#search = new WorkerSearch(hub, name, options, {
      isNeeded: () => this.#waiting.size > 0 && this.#room > 0,
      room: () => this.#room,
      uses: (worker) => [...this.#links].some((link) => link.worker === worker),
      farWorkers: () => [...this.#links].filter((link) => link.isFar).map((link) => link.worker),
      onLink: (channels) => this.#onLink(channels),
      onFailure: (error) => this.#onNoHub(error),
    });
  }

  /** Number of connected workers. */
  get workers(): number {
    return this.#links.size;
  }

  /** Number of requests that wait for a worker. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of requests that were sent to another worker because the first was gone. */
  get retried(): number {
    return this.#retried;
  }

  /**
   * Sends a request to a worker and returns the reply. `fill` writes the request into its slot. It
   * runs again if the request goes to another worker. Without it the request has only meta. Release
   * each reply: new requests stall while all slots are held.
   * @throws REQUEST_FAILED if the handler threw
   * @throws PEER_GONE if the worker died and no retry is left
   * @throws TIMEOUT; if no worker was usable, its cause says why for each one
   * @throws ABORTED, CLOSED, LIMIT_EXCEEDED, MESSAGE_TOO_LARGE, and what `fill` throws
   * @example
   * using reply = await client.request((slot) => slot.array.write(image), { timeoutMs: 1000 });
   * console.log(reply.json, await reply.array.read());
   */
  async request(
    fill: FillRequest | undefined,
    options: RequestOptions = {},
  ): Promise<ServiceMessage> {
    checkRequest(options);
    if (fill !== undefined) checkFunction("fill", fill);
    const attempt = `request from service "${this.name}"`;
    const deadline = new Deadline(attempt, options, defaults.requestTimeoutMs);
    const { meta, shape, byteLength } = options;
    const ask: Ask = { fill, meta, shape, byteLength };
    const send = () => this.#request(attempt, ask, deadline);
    try {
      return await operations.request.run({ name: this.name }, send);
    } catch (error) {
      throw withCallers(ofService(error, this.name));
    }
  }

  async #request(attempt: string, ask: Ask, deadline: Deadline): Promise<ServiceMessage> {
    for (let lost = 0; ; ) {
      const link = await this.#linkFor(deadline);
      const outcome = await link
        .send(ask, deadline)
        .catch((error) => this.#fail(link, deadline, error));
      if (outcome.kind === "reply") return outcome.reply;
      if (outcome.kind === "failed") {
        throw new CudaIpcError(
          "REQUEST_FAILED",
          `Cannot ${attempt}: the handler threw ${failureText(outcome.report)}`,
        );
      }
      if (outcome.kind === "dropped") throw deadline.timedOut(await this.#whyUnanswered(link));
      if (outcome.kind === "elsewhere") continue;
      lost += 1;
      this.#checkMayRetry(attempt, lost, outcome);
      this.#retried += 1;
    }
  }

  /** Ends all links. Open requests fail with CLOSED, and replies that are held end. */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** For links. @internal */
  onRoom(): void {
    this.#rooms += 1;
    for (const waiter of this.#waiting) {
      const link = this.#bestLink();
      if (link === undefined) return;
      this.#waiting.delete(waiter);
      link.reserve();
      waiter.link = link;
      waiter.resolve(link);
    }
  }

  /** For links. @internal */
  onEnd(link: ClientLink): void {
    this.#links.delete(link);
    this.#lingering.add(link);
    if (this.#waiting.size > 0) this.#search.begin();
  }

  /** For links. @internal */
  onSettled(link: ClientLink): void {
    this.#lingering.delete(link);
  }

  /**
   * How many more workers it may use. A worker that accepts no more requests must not keep it from
   * another one.
   */
  get #room(): number {
    return this.#plan.workersMax - [...this.#links].filter((link) => !link.isLeaving).length;
  }

  #onLink(channels: ClientChannels): void {
    const link = new ClientLink(channels, this);
    this.#links.add(link);
    void link.listen();
    this.onRoom();
  }

  /** Requests that have a worker go on without a hub. */
  #onNoHub(error: CudaIpcError): void {
    if ([...this.#links].some((link) => !link.isLeaving)) return;
    for (const { reject } of this.#waiting) reject(error);
    this.#waiting.clear();
  }

  /** Returns a link with room reserved on it. */
  async #linkFor(deadline: Deadline): Promise<ClientLink> {
    deadline.check();
    if (this.#closing !== undefined) throw this.#closedError();
    const link = this.#waiting.size === 0 ? this.#bestLink() : undefined;
    if (link !== undefined) {
      // A request would have to wait behind another here, or to travel. A new worker may be idle.
      if (link.load > 0 || link.isFar) this.#search.lookAgain();
      link.reserve();
      return link;
    }
    if (this.#waiting.size >= limits.serviceWaitingMax) {
      const found = `${this.#waiting.size} requests wait, the limit (serviceWaitingMax)`;
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot request from service "${this.name}": ${found}`,
      );
    }
    return this.#waitForLink(deadline);
  }

  async #waitForLink(deadline: Deadline): Promise<ClientLink> {
    const waiter: Waiter = { resolve: () => {}, reject: () => {}, link: undefined };
    const found = new Promise<ClientLink>((resolve, reject) =>
      Object.assign(waiter, { resolve, reject }),
    );
    this.#waiting.add(waiter);
    this.#search.begin();
    this.#stall.begin();
    try {
      return await deadline.race(found, () => {
        this.#waiting.delete(waiter);
        waiter.link?.giveBack();
      });
    } catch (error) {
      if (!hasCode(error, "TIMEOUT")) throw error;
      if (this.#links.size > 0) throw deadline.timedOut(whyNoRoom(this.#links));
      throw this.#search.timedOut(`request from service "${this.name}"`, deadline.timeoutMs);
    }
  }

  async #fail(link: ClientLink, deadline: Deadline, error: unknown): Promise<never> {
    // The callback may throw a TIMEOUT of its own, so the deadline is checked too.
    if (!hasCode(error, "TIMEOUT") || !deadline.isOver) throw error;
    throw deadline.timedOut(await this.#whyUnanswered(link));
  }

  async #whyUnanswered(link: ClientLink): Promise<string> {
    const name = await link.workerWords(this.#hub);
    const others = link.load - 1;
    const behind = others > 0 ? `; ${others} other requests of this client wait for it` : "";
    return `its worker (${name}) has not answered${behind}`;
  }

  /** Set while requests wait for replies that the program holds, or has dropped. */
  get #heldUpAt(): number | undefined {
    const isHeldUp = this.#waiting.size > 0 && [...this.#links].some((link) => link.isHeldUp);
    return isHeldUp ? this.#rooms : undefined;
  }

  /** The nearest workers first. */
  #bestLink(): ClientLink | undefined {
    const best = leastLoaded(this.#links, false) ?? leastLoaded(this.#links, true);
    if (best === undefined) return undefined;
    // Moves the link to the end, so equally loaded workers take turns.
    this.#links.delete(best);
    this.#links.add(best);
    return best;
  }

  /** @throws PEER_GONE */
  #checkMayRetry(
    attempt: string,
    lost: number,
    { cause }: Extract<Outcome, { kind: "gone" }>,
  ): void {
    if (this.#plan.policy === "retry" && lost <= this.#plan.retriesMax) return;
    const times = lost > 1 ? `, the last of ${lost}` : "";
    const message = `Cannot ${attempt}: its worker ended before it answered${times}`;
    throw new CudaIpcError("PEER_GONE", message, { cause });
  }

  async #close(): Promise<void> {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(this.#closedError());
    this.#stall.close();
    try {
      this.#closeLinks();
    } finally {
      await this.#search.close();
      // The search may have found another worker meanwhile.
      this.#closeLinks();
    }
  }

  #closeLinks(): void {
    releaseAll([...this.#links, ...this.#lingering].map((link) => () => link.close()));
  }

  #closedError(): CudaIpcError {
    return new CudaIpcError(
      "CLOSED",
      `Cannot request from service "${this.name}": the client was closed`,
    );
  }
}

/**
 * Returns a client of the service with this name. It looks for workers when it has requests. Close
 * it before you close the hub.
 * @throws INVALID_NAME, RangeError, TypeError
 */
export function connectService(
  hub: Hub,
  name: string,
  options: ConnectServiceOptions = {},
): ServiceClient {
  checkHub(hub);
  return new ServiceClient(hub, name, options);
}
