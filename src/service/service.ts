/**
 * A worker of a service. It takes requests of its clients in turn, runs the handler, and sends the
 * replies. It decides what each client is told when the worker closes or the device is lost.
 */
import type { DType } from "../array/dtype.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { hasCode } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkFunction, optionsOf, waitChecks } from "../base/option-checks.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Hub } from "../client/hub.js";
import { monotonicMicros } from "./envelope.js";
import { failureReport } from "./failure-report.js";
import { FairQueue } from "./fair-queue.js";
import { checkedReply, type ReplyOptions, type ReplySlot } from "./reply-slot.js";
import { operations } from "./service-diagnostics.js";
import type { ServiceRequest } from "./service-message.js";
import { checkServiceName, ofService } from "./service-names.js";
import {
  checkHub,
  checkServe,
  type ServeOptions,
  type ServicePlan,
  servicePlan,
} from "./service-options.js";
import { WorkerLink } from "./worker-link.js";
import { WorkerOffers } from "./worker-offers.js";

/**
 * Handles one request. Its result is sent with the reply; nothing is fine. If it throws, or returns
 * something else, the client gets REQUEST_FAILED.
 */
export type ServiceHandler<Q extends DType = DType, R extends DType = DType> = (
  request: ServiceRequest<Q>,
  reply: ReplySlot<R>,
  // biome-ignore lint/suspicious/noConfusingVoidType: TypeScript before 5.6 makes it of no return
) => void | ReplyOptions | Promise<void | ReplyOptions>;

interface Work<Q extends DType, R extends DType> {
  readonly link: WorkerLink<Q, R>;
  readonly request: ServiceRequest<Q>;
  timer: NodeJS.Timeout | undefined;
}

/** setTimeout fires at once for anything larger. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const checkClose = optionsOf<WaitOptions>("close()", waitChecks);

export class Service<Q extends DType = DType, R extends DType = DType> {
  readonly name: string;
  readonly #handler: ServiceHandler<Q, R>;
  readonly #plan: ServicePlan<Q, R>;
  readonly #offers: WorkerOffers<Q, R>;
  readonly #links = new Set<WorkerLink<Q, R>>();
  readonly #queue = new FairQueue<WorkerLink<Q, R>, Work<Q, R>>();
  readonly #running = new Map<Work<Q, R>, ReplySlot<R>>();
  #answered = 0;
  #closing: Promise<void> | undefined;
  /** The device is lost, so every further request would fail. */
  #isLost = false;
  #onIdle: () => void = () => {};

  /** Use `serve()`. */
  constructor(
    name: string,
    plan: ServicePlan<Q, R>,
    handler: ServiceHandler<Q, R>,
    offers: WorkerOffers<Q, R>,
  ) {
    this.name = name;
    this.#plan = plan;
    this.#handler = handler;
    this.#offers = offers;
    offers.start({
      onTaken: (requests, replies) => this.#onTaken(requests, replies),
      hasRoom: () => this.#links.size < plan.clientsMax,
    });
  }

  /** Number of connected clients. */
  get clients(): number {
    return this.#links.size;
  }

  /** Number of requests that the handler works on. */
  get running(): number {
    return this.#running.size;
  }

  /** Number of requests that wait for the handler. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Number of requests that the handler has finished. */
  get answered(): number {
    return this.#answered;
  }

  /**
   * Finishes running requests and refuses waiting ones, which clients then send to other workers. A
   * request that is not finished in time (30 s by default) is abandoned: its signal aborts, and its
   * client sees a dead worker. A further call waits for the first one, as long as its own options
   * allow.
   * @throws TIMEOUT, ABORTED from a further call
   */
  async close(options: WaitOptions = {}): Promise<void> {
    checkClose(options);
    if (this.#closing !== undefined) {
      const deadline = this.#closeDeadline(options, Number.POSITIVE_INFINITY);
      return deadline.race(this.#closing, () => {});
    }
    this.#closing = this.#close(this.#closeDeadline(options, defaults.requestTimeoutMs));
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
    giveUpLate(work);
    this.#pump();
  }

  /** For links. @internal */
  onEnd(link: WorkerLink<Q, R>, closeReplies: () => void): void {
    this.#links.delete(link);
    this.#offers.linkEnded(closeReplies);
  }

  /**
   * For links: takes no more requests, and refuses those that wait. The links stay open, because a
   * link that its worker closes tells the client that nothing on it was begun.
   * @internal
   */
  onLost(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    void this.#offers.close().catch(() => {});
    void this.#refuseWaiting();
  }

  #closeDeadline(options: WaitOptions, defaultTimeoutMs: number): Deadline {
    const why = () => `requests that still run: ${this.#running.size}`;
    return new Deadline(`close service "${this.name}"`, options, defaultTimeoutMs, why);
  }

  #onTaken(requests: ChannelReader<Q>, replies: ChannelWriter<R>): void {
    const { hasReplyData, request, reply } = this.#plan;
    const reportBytesMax = reply.metaBytesMax;
    const { metaBytesMax } = request;
    const { stream } = requests;
    const channels = { requests, replies, metaBytesMax, reportBytesMax, hasReplyData, stream };
    const link = new WorkerLink(channels, this);
    this.#links.add(link);
    void link.listen();
  }

  #pump(): void {
    while (this.#running.size < this.#plan.concurrency) {
      const work = this.#queue.shift();
      if (work === undefined) return;
      // The deadline timer may fire late if the handler blocks the event loop.
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

  /** The client no longer waits. A request that was not begun is dropped. */
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
      work.link.closeReply(reply);
      this.#running.delete(work);
      this.#pump();
      if (this.#running.size === 0) this.#onIdle();
    }
  }

  async #work({ link, request }: Work<Q, R>, reply: ReplySlot<R>): Promise<void> {
    try {
      const { name } = this;
      const handle = async () => checkedReply(await this.#handler(request, reply));
      const options = (await operations.handle.run({ name, request }, handle)) ?? {};
      this.#answered += 1;
      request.release();
      if (!request.signal.aborted) return await link.send(request, reply, options);
      await link.answer(request, "dropped", { reply });
    } catch (error) {
      if (!hasCode(error, "DEVICE_LOST")) {
        if (request.signal.aborted) return await link.answer(request, "dropped", { reply });
        return await link.answer(request, "failed", { meta: failureReport(error), reply });
      }
      // "failed" would blame the request. Another worker may well answer it.
      this.onLost();
      link.closeReply(reply);
      await link.answer(request, "abandoned");
    }
  }

  async #close(deadline: Deadline): Promise<void> {
    await this.#offers.close();
    // Awaited last, because a refusal may have to wait for the slot of a reply that is being made.
    const refused = this.#refuseWaiting();
    // Thrown below, where it is awaited.
    refused.catch(() => {});
    let abandoned: Promise<void> | undefined;
    if (this.#running.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await deadline
        .race(idle, () => {})
        .catch((cause) => {
          abandoned = this.#abandon(cause);
        });
    }
    const attempt = `tell the clients of service "${this.name}"`;
    try {
      await new Deadline(attempt, {}, defaults.goodbyeTimeoutMs).race(
        Promise.all([refused, abandoned]),
        () => {},
      );
    } catch (error) {
      // Not a failure: a client that keeps all slots for replies cannot be told.
      if (!hasCode(error, "TIMEOUT")) throw error;
    } finally {
      for (const link of [...this.#links]) link.close("its worker was closed");
    }
  }

  async #refuseWaiting(): Promise<void> {
    const refused = this.#queue.clear().map(({ link, request, timer }) => {
      clearTimeout(timer);
      return link.answer(request, "refused");
    });
    await Promise.all(refused);
  }

  /** Each client must be told: one that hears nothing assumes that its request was never begun. */
  async #abandon(cause: unknown): Promise<void> {
    const answers = [...this.#running].map(([{ link, request }, reply]) => {
      request.giveUp("CLOSED", "its worker was closed", cause);
      return link.answer(request, "abandoned", { reply });
    });
    await Promise.all(answers);
  }
}

/**
 * Serves requests under this name, as one of its workers. Returns once clients can connect. The
 * worker runs until you close it or the process ends.
 * @throws INVALID_NAME, OUT_OF_MEMORY; RangeError and TypeError for options that no channel can
 * have
 * @example
 * const message = { dtype: "float32", shape: [4] } as const;
 * await using service = await serve(hub, "double", { request: message, reply: message },
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
  checkHub(hub);
  checkServiceName(name);
  checkServe(options);
  checkFunction("handler", handler);
  const plan = servicePlan(options, hub.device(options.device));
  try {
    return new Service(name, plan, handler, await WorkerOffers.open(hub, name, plan, options));
  } catch (error) {
    throw ofService(error, name);
  }
}

/** Aborts the request's signal when its deadline passes. */
function giveUpLate(work: Pick<Work<DType, DType>, "request" | "timer">): void {
  const { request } = work;
  if (request.deadlineMicros === undefined) return;
  const remainingMs = Math.max(0, request.deadlineMicros - monotonicMicros()) / 1000;
  const isLong = remainingMs > TIMER_MS_MAX;
  const onTime = () =>
    isLong ? giveUpLate(work) : request.giveUp("TIMEOUT", "its deadline has passed");
  work.timer = setTimeout(onTime, isLong ? TIMER_MS_MAX : remainingMs);
}

function isLate({ deadlineMicros }: ServiceRequest): boolean {
  return deadlineMicros !== undefined && monotonicMicros() >= deadlineMicros;
}
