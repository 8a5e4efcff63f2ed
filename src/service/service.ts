/**
 * A worker of a service: takes what clients ask, one of each in turn, has the handler work on it, and sends its replies. What its clients
 * are owed when it is closed, or when one of them dies, is decided here.
 */
import type { DType } from "../array/dtype.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { hasCode } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkFunction } from "../base/option-checks.js";
import type { Hub } from "../client/hub.js";
import { monotonicMicros } from "./envelope.js";
import { failureReport } from "./failure-report.js";
import { FairQueue } from "./fair-queue.js";
import { Offer } from "./offer.js";
import { Offers } from "./offers.js";
import type { ReplyOptions, ReplySlot } from "./reply-slot.js";
import type { ServiceRequest } from "./service-message.js";
import { checkServiceName, newWorkerId, replyName } from "./service-names.js";
import { checkServe, type ServeOptions, type ServicePlan, servicePlan } from "./service-options.js";
import { WorkerLink } from "./worker-link.js";

/** Works on one request. What it returns goes with the reply; what it throws reaches the client as REQUEST_FAILED. */
export type ServiceHandler<Q extends DType = DType, R extends DType = DType> = (
  request: ServiceRequest<Q>,
  reply: ReplySlot<R>,
) => undefined | ReplyOptions | Promise<undefined | ReplyOptions>;

interface Work<Q extends DType, R extends DType> {
  readonly link: WorkerLink<Q, R>;
  readonly request: ServiceRequest<Q>;
  timer: NodeJS.Timeout | undefined;
}

/** setTimeout fires at once for anything larger. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export class Service<Q extends DType = DType, R extends DType = DType> {
  readonly name: string;
  readonly #handler: ServiceHandler<Q, R>;
  readonly #plan: ServicePlan<Q, R>;
  readonly #offers: Offers<Q, R>;
  readonly #links = new Set<WorkerLink<Q, R>>();
  readonly #queue = new FairQueue<WorkerLink<Q, R>, Work<Q, R>>();
  readonly #running = new Map<Work<Q, R>, ReplySlot<R>>();
  #answered = 0;
  #closing: Promise<void> | undefined;
  /** Its device is lost, and so is every request that it would take. */
  #isLost = false;
  #onIdle: () => void = () => {};

  /** Use `serve()`. */
  constructor(
    name: string,
    first: Offer<Q, R>,
    {
      plan,
      make,
      handler,
      hasHub,
    }: {
      plan: ServicePlan<Q, R>;
      make: () => Promise<Offer<Q, R>>;
      handler: ServiceHandler<Q, R>;
      hasHub: () => boolean;
    },
  ) {
    this.name = name;
    this.#plan = plan;
    this.#handler = handler;
    const { hasReplyData } = plan;
    const { metaBytesMax } = plan.reply;
    this.#offers = new Offers(first, {
      make,
      onTaken: (requests, replies) =>
        this.#onTaken(new WorkerLink({ requests, replies, metaBytesMax, hasReplyData, stream: requests.stream }, this)),
      hasRoom: () => this.#links.size < plan.clientsMax,
      hasHub,
    });
  }

  /** Clients that are linked. */
  get clients(): number {
    return this.#links.size;
  }

  /** Requests that the handler works on. */
  get running(): number {
    return this.#running.size;
  }

  /** Requests that wait for the handler. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Requests that the handler was done with. */
  get answered(): number {
    return this.#answered;
  }

  /**
   * Finishes what was begun, refuses the rest, which clients then take to other workers, and leaves. What is not done within the time
   * (30 s by default) is given up: its signal is aborted, and to its client it is as if this worker had died.
   */
  async close(options: WaitOptions = {}): Promise<void> {
    this.#closing ??= this.#close(new Deadline(`close service "${this.name}"`, options, defaults.requestTimeoutMs));
    await this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** For links. @internal */
  onRequest(link: WorkerLink<Q, R>, request: ServiceRequest<Q>): void {
    if (this.#closing !== undefined || this.#isLost) {
      void link.answer(request, "refused");
      return;
    }
    const work: Work<Q, R> = { link, request, timer: undefined };
    this.#queue.push(link, work);
    request.signal.addEventListener("abort", () => this.#drop(work), { once: true });
    work.timer = deadlineTimer(request);
    this.#pump();
  }

  /** For links. @internal */
  onEnd(link: WorkerLink<Q, R>): void {
    this.#links.delete(link);
    this.#offers.roomCame();
  }

  /** For links: takes nothing more, and has clients take elsewhere what was not begun. @internal */
  onLost(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    void this.#offers.close().catch(() => {});
    void this.#refuseWaiting();
  }

  #onTaken(link: WorkerLink<Q, R>): void {
    this.#links.add(link);
    void link.listen();
  }

  #pump(): void {
    while (this.#running.size < this.#plan.concurrency) {
      const work = this.#queue.shift();
      if (work === undefined) return;
      // WHY looked at again: where the handler keeps the event loop, a timer comes late.
      if (isLate(work.request)) {
        clearTimeout(work.timer);
        void work.link.answer(work.request, "dropped");
        continue;
      }
      const reply = work.link.openReply();
      this.#running.set(work, reply);
      void this.#run(work, reply);
    }
  }

  /** Nobody waits for it: where it was not begun, it never is. */
  #drop(work: Work<Q, R>): void {
    if (!this.#queue.delete(work.link, work)) return;
    clearTimeout(work.timer);
    void work.link.answer(work.request, "dropped");
  }

  async #run(work: Work<Q, R>, reply: ReplySlot<R>): Promise<void> {
    try {
      await this.#work(work, reply);
    } finally {
      clearTimeout(work.timer);
      reply.close();
      this.#running.delete(work);
      this.#pump();
      if (this.#running.size === 0) this.#onIdle();
    }
  }

  async #work({ link, request }: Work<Q, R>, reply: ReplySlot<R>): Promise<void> {
    try {
      const options = (await this.#handler(request, reply)) ?? {};
      this.#answered += 1;
      request.release();
      if (!request.signal.aborted) return await link.send(request, reply, options);
      reply.close();
      await link.answer(request, "dropped");
    } catch (error) {
      reply.close();
      if (request.signal.aborted) return await link.answer(request, "dropped");
      if (!hasCode(error, "DEVICE_LOST")) return await link.answer(request, "failed", failureReport(error));
      // WHY not "failed": it says nothing of the request, which another worker may well answer.
      this.onLost();
      await link.answer(request, "abandoned");
    }
  }

  async #close(deadline: Deadline): Promise<void> {
    await this.#offers.close();
    await this.#refuseWaiting();
    if (this.#running.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await deadline.race(idle, () => {}).catch(() => this.#abandon());
    }
    for (const link of [...this.#links]) link.close("its worker was closed");
  }

  async #refuseWaiting(): Promise<void> {
    const refused = this.#queue.clear().map(({ link, request, timer }) => {
      clearTimeout(timer);
      return link.answer(request, "refused");
    });
    await Promise.all(refused);
  }

  /** WHY told one by one: a client takes a request that got no word as one that was never begun. */
  async #abandon(): Promise<void> {
    const answers = [...this.#running].map(([{ link, request }, reply]) => {
      request.giveUp("CLOSED", "its worker was closed");
      reply.close();
      return link.answer(request, "abandoned");
    });
    await Promise.all(answers);
  }
}

/**
 * Serves requests of this name, as one of its workers, until it is closed, or this process ends.
 * @throws INVALID_NAME, OUT_OF_MEMORY; RangeError and TypeError for what no channel can be
 * @example
 * await using service = await serve(hub, "double", { request: { dtype: "float32", shape: [4] }, reply: { dtype: "float32", shape: [4] } },
 *   async (request, reply) => {
 *     const values = await request.array.read();
 *     await (await reply.loan()).array.write(values.map((value) => 2 * value));
 *     return { meta: { doubled: true } };
 *   });
 */
export async function serve<Q extends DType, R extends DType>(
  hub: Hub,
  name: string,
  options: ServeOptions<Q, R>,
  handler: ServiceHandler<Q, R>,
): Promise<Service<Q, R>> {
  checkServiceName(name);
  checkServe(options);
  checkFunction("handler", handler);
  const plan = servicePlan(options, hub.device(options.device));
  const worker = newWorkerId();
  let offers = 0;
  const make = (wait: WaitOptions) => {
    offers += 1;
    return Offer.make(hub, replyName(name, worker, offers - 1), plan, { ...options, ...wait });
  };
  const first = await make({ timeoutMs: options.timeoutMs, signal: options.signal });
  let hasHub = true;
  hub.onEnd(() => {
    hasHub = false;
  });
  const makeNext = () => make({ timeoutMs: undefined, signal: undefined });
  return new Service(name, first, { plan, make: makeNext, handler, hasHub: () => hasHub });
}

/** Aborts the request's signal when its client waits no longer. */
function deadlineTimer(request: ServiceRequest): NodeJS.Timeout | undefined {
  if (request.deadlineMicros === undefined) return undefined;
  const giveUp = () => request.giveUp("TIMEOUT", "its client waits for it no longer");
  const remainingMs = Math.max(0, request.deadlineMicros - monotonicMicros()) / 1000;
  return setTimeout(giveUp, Math.min(remainingMs, TIMER_MS_MAX));
}

function isLate({ deadlineMicros }: ServiceRequest): boolean {
  return deadlineMicros !== undefined && monotonicMicros() >= deadlineMicros;
}
