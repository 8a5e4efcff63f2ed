/**
 * Looks at a hub again and again, without touching what it looks at. If the hub ends, it joins the
 * next one. Ask for one snapshot at a time, and close it.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import type { SlotUse } from "../channel/channel-observer.js";
import { hubSocketPath, joinHub } from "../client/connect.js";
import type { HubLink } from "../client/connection/hub-link.js";
import { Devices } from "../client/devices.js";
import { HubObjects } from "../client/objects/hub-objects.js";
import type { HubStatus } from "../wire/messages.js";
import { devicesOf } from "./devices.js";
import { GpuMemory } from "./gpu-memory.js";
import { hostMemory } from "./host-memory.js";
import type { Snapshot, WatchedHub } from "./snapshot.js";
import { WatchedChannels } from "./watched-channels.js";
import { WatchedClients } from "./watched-clients.js";
import { WatchedObjects } from "./watched-objects.js";
import { servicesAmong } from "./watched-services.js";

export interface WatchOptions {
  /** The hub's socket. The default is as for `connect`. */
  readonly socket?: string | undefined;
  /** The program's name in `cuda-ipc inspect`. */
  readonly program: string;
}

/** How long a snapshot waits for the hub, unless its caller says. */
const ANSWER_TIMEOUT_MS = 5000;

interface Joined {
  readonly link: HubLink;
  readonly shared: HubObjects;
}

export class HubWatch {
  readonly #options: WatchOptions;
  readonly #socket: string;
  readonly #objects = new WatchedObjects();
  readonly #channels = new WatchedChannels();
  readonly #clients = new WatchedClients();
  readonly #gpus: GpuMemory;
  #joined: Joined | undefined;
  #joining: Promise<Joined> | undefined;
  #status: HubStatus | undefined;
  #instance: string | undefined;
  #successors = 0;
  #trouble: CudaIpcError | undefined;
  #reason: string | undefined = "it was not asked yet";
  #sinceMs = Date.now();
  #open = true;

  /** Joins nothing before the first snapshot. */
  constructor(options: WatchOptions, gpus = new GpuMemory()) {
    this.#options = options;
    this.#socket = hubSocketPath(options.socket);
    this.#gpus = gpus;
  }

  /**
   * Looks once. If the hub does not answer, the snapshot says so, and has what was known before.
   * The first look lists everything. It may take longer than the timeout if the hub answers.
   * @throws ABORTED, CLOSED
   */
  async snapshot(options: WaitOptions = {}): Promise<Snapshot> {
    const attempt = `look at the hub at ${this.#socket}`;
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the watch was closed`);
    const deadline = new Deadline(attempt, options, ANSWER_TIMEOUT_MS);
    try {
      await this.#update(deadline);
      this.#found(undefined);
    } catch (error) {
      if (options.signal?.aborted || !(error instanceof CudaIpcError)) throw error;
      this.#found(error);
    }
    return this.#snapshot();
  }

  /** Who needs which slots of a channel now. Undefined if the channel cannot be read. */
  slotUse(channel: number, columnsMax: number): SlotUse | undefined {
    return this.#channels.observer(channel)?.slotUse(columnsMax);
  }

  /**
   * Ends the session of a client, whose calls then fail with DISCONNECTED.
   * @throws NOT_FOUND if there is no such client that this user may see; ABORTED, TIMEOUT
   */
  async disconnect(session: number, options: WaitOptions = {}): Promise<void> {
    const deadline = new Deadline(`disconnect client ${session}`, options, ANSWER_TIMEOUT_MS);
    const { link } = await this.#join(deadline);
    await link.request("disconnect", { session }, deadline);
  }

  /** The error of the latest snapshot, if the hub did not answer. */
  get trouble(): CudaIpcError | undefined {
    return this.#trouble;
  }

  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    this.#gpus.close();
    await this.leave();
  }

  /** Leaves the hub. The next snapshot joins it again. */
  async leave(): Promise<void> {
    const joined = this.#joined;
    this.#forget();
    await joined?.link.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #update(deadline: Deadline): Promise<void> {
    const { link, shared } = await this.#join(deadline);
    const status = await link.request("status", {}, deadline);
    if (this.#instance !== undefined && this.#instance !== status.instance) this.#successors += 1;
    this.#instance = status.instance;
    this.#status = { ...status, clients: status.clients - 1 };
    await this.#clients.update(link, deadline);
    await this.#objects.update(link, deadline);
    await this.#objects.updateNameless(link, deadline, status.nameless.objects);
    // WHY anew: the hub answers, and a list of everything may have taken all of the time.
    const anew = deadline.withTimeout(deadline.timeoutMs, () => "it still opens channels");
    await this.#channels.update(shared, this.#objects.all(), anew);
  }

  async #join(deadline: Deadline): Promise<Joined> {
    if (this.#joined !== undefined) return this.#joined;
    this.#joining ??= this.#joinOnce(deadline).finally(() => {
      this.#joining = undefined;
    });
    return this.#joining;
  }

  async #joinOnce(deadline: Deadline): Promise<Joined> {
    const { socket, program } = this.#options;
    const link = await joinHub({
      socket,
      program,
      start: false,
      // WHY for ever: a hub that crashed keeps this session until this process ends or comes back.
      reconnectTimeoutMs: Number.POSITIVE_INFINITY,
      ...deadline.rest(),
    });
    const shared = new HubObjects(link, new Devices("host"), () => {});
    this.#joined = { link, shared };
    // Positions of changes count for one hub.
    link.onReconnect(() => this.#objects.distrust());
    link.onEnd(() => {
      // The hub was stopped, and all names are gone.
      if (this.#joined?.link === link) this.#forget();
    });
    return this.#joined;
  }

  #forget(): void {
    this.#joined = undefined;
    this.#status = undefined;
    this.#objects.clear();
    this.#clients.clear();
    this.#channels.close();
  }

  #found(trouble: CudaIpcError | undefined): void {
    const reason = trouble === undefined ? undefined : reasonOf(trouble);
    if ((reason === undefined) !== (this.#reason === undefined)) this.#sinceMs = Date.now();
    this.#reason = reason;
    this.#trouble = trouble;
  }

  #snapshot(): Snapshot {
    const objects = [...this.#objects.all()];
    const nameless = this.#objects.nameless();
    const all = [...objects, ...nameless];
    const channels = objects.filter(({ descriptor }) => descriptor.content.kind === "channel");
    return {
      atMs: Date.now(),
      monotonicMs: performance.now(),
      hub: this.#hub(),
      devices: devicesOf(all, hostMemory(), this.#gpus.look()),
      gpusUnknown: this.#gpus.reason,
      objects,
      nameless,
      clients: this.#clients.holding(all),
      channels: channels.map((channel) => this.#channels.state(channel)),
      services: servicesAmong(channels, (object) => this.#channels.observer(object)),
    };
  }

  #hub(): WatchedHub {
    return {
      socket: this.#socket,
      answers: this.#reason === undefined,
      reason: this.#reason,
      sinceMs: this.#sinceMs,
      successors: this.#successors,
      status: this.#status,
    };
  }
}

/** The part of the message that says what was found. */
function reasonOf(error: CudaIpcError): string {
  if (error.code === "HUB_GONE") return "it was stopped";
  return error.message.replace(/^Cannot [^:]*: /s, "");
}
