/**
 * The bridge of one machine: an ordinary client of the local hub that tells other machines, over
 * NATS, what this one has, and copies what they have, over UCX.
 */
import { randomUUID } from "node:crypto";
import { Deadline } from "../base/deadline.js";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { Hub } from "../client/hub.js";
import { ownIdentity } from "../os/process-identity.js";
import { ownUid } from "../os/runtime-folder.js";
import { UcxContext } from "../ucx/ucx-context.js";
import { type BridgeStatus, bridgeSocketPath } from "../wire/bridge-messages.js";
import type { MachineRecord } from "../wire/machine-records.js";
import { MACHINES_VERSION } from "../wire/machines-version.js";
import { statusOf } from "./bridge-status.js";
import { LinkTable } from "./link/link-table.js";
import { BridgeClaim, LocalServer } from "./local/local-server.js";
import { type AnnounceRule, announcedOf } from "./local-names.js";
import { Looking } from "./looking.js";
import { Announcer } from "./names/announcer.js";
import { Directory } from "./names/directory.js";
import { FairRoom } from "./names/fair-room.js";
import { GoneMachines } from "./names/gone-machines.js";
import type { NameStore } from "./names/name-store.js";
import type { NatsOptions } from "./names/nats-options.js";
import { NatsStore } from "./names/nats-store.js";
import { Presence } from "./names/presence.js";
import { ServiceAnnouncer } from "./names/service-announcer.js";
import { Replicas } from "./replicas.js";
import { FarWorkers } from "./services/far-workers.js";
import { ExportServer } from "./transfer/export-server.js";
import { FetchTable } from "./transfer/fetch-table.js";
import { IndexAccount } from "./transfer/index-account.js";

export interface BridgeOptions {
  readonly hub: Hub;
  readonly nats: NatsOptions;
  /** The name of this machine among the others. */
  readonly machine: string;
  /** The only network interface on which other machines reach it, as UCX names it. */
  readonly networkInterface: string;
  /** Where copies of other machines' objects are made: `host` or `cuda:N`. */
  readonly device: string;
  readonly isAnnounced: (name: string) => boolean;
  readonly isPulled: (name: string) => boolean;
  /**
   * Users whose workers clients of other machines may have, beside the bridge's user, root and the
   * hub's user.
   */
  readonly workers: readonly number[];
  readonly keepReplicas: boolean;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** How long the end waits for NATS to take the names back. */
const GOODBYE_MS = 2000;
/** Machines that may copy bundles with the largest indexes at a time. */
const INDEX_SHARES = 2;

interface Parts {
  readonly options: BridgeOptions;
  /** The bridge's own user, as the hub numbers it. */
  readonly uid: number;
  readonly workers: ReadonlySet<number>;
  readonly claim: BridgeClaim;
  readonly store: NatsStore;
  readonly context: UcxContext;
  readonly directory: Directory;
}

export class Bridge {
  /** Resolves with the reason if the bridge cannot go on. */
  readonly failed: Promise<CudaIpcError>;
  readonly #parts: Parts;
  readonly #instance = randomUUID();
  readonly #rule: AnnounceRule;
  readonly #room: FairRoom;
  readonly #announcer: Announcer;
  readonly #services: ServiceAnnouncer;
  readonly #gone: GoneMachines;
  readonly #links: LinkTable;
  readonly #fetches: FetchTable;
  readonly #workers: FarWorkers;
  /** The links over which something of this machine is used. */
  readonly #serving = new Set<ExportServer>();
  readonly #replicas: Replicas;
  readonly #looking: Looking;
  readonly #local: LocalServer;
  #fail: (reason: CudaIpcError) => void = () => {};
  #presence: Presence | undefined;
  #open = true;

  private constructor(given: Parts) {
    const { options, uid, workers: serving, claim, store, context, directory } = given;
    const { hub, machine, device, isPulled, keepReplicas: keep, log } = options;
    this.#parts = given;
    this.failed = new Promise((resolve) => {
      this.#fail = resolve;
    });
    this.#rule = { isAnnounced: options.isAnnounced, uid, workers: serving };
    this.#room = new FairRoom(machine, directory, log);
    this.#announcer = new Announcer(machine, store, directory, log);
    this.#services = new ServiceAnnouncer(machine, store, directory, log);
    this.#gone = new GoneMachines(machine, store, directory, log);
    const announced = (name: string) => this.#announcer.offered(name);
    const exports = {
      hub,
      rule: this.#rule,
      announced,
      indexes: new IndexAccount("bridgeIndexBytesMax", INDEX_SHARES * limits.bridgeIndexBytesMax),
      serving: this.#serving,
    };
    this.#links = new LinkTable({
      machine,
      instance: this.#instance,
      context,
      store,
      log,
      serve: (link) => new ExportServer(exports, link),
    });
    const indexes = new IndexAccount("bridgeIndexBytesMax", limits.bridgeIndexBytesMax);
    const parts = { hub, uid, links: this.#links, directory, device, indexes };
    const absence = () => awayWords(store);
    const fetches = new FetchTable(machine, parts, absence, log);
    this.#fetches = fetches;
    const workers = new FarWorkers(machine, parts, absence, log);
    this.#workers = workers;
    this.#replicas = new Replicas({ hub, machine, uid, directory, fetches, keep, isPulled, log });
    this.#looking = new Looking({
      look: () => this.#look(),
      changed: (since, signal) => hub.changed(since, { signal }),
    });
    directory.onChange(() => this.#looking.soon());
    this.#local = new LocalServer(claim, {
      fetches,
      workers,
      status: (after) => this.status(after),
    });
    hub.onEnd((reason) => this.#fail(reason));
  }

  /**
   * Starts the bridge. Resolves when other machines see the names of this one.
   * @throws BRIDGE_RUNNING, ENGINE_NOT_FOUND, NATS_UNAVAILABLE, UNSUPPORTED, ABORTED
   */
  static async start(options: BridgeOptions): Promise<Bridge> {
    const { hub, nats, machine, networkInterface, log, signal } = options;
    const deadline = new Deadline("start the bridge", { signal }, Number.POSITIVE_INFINITY);
    const claim = BridgeClaim.make(bridgeSocketPath(hub.socketPath));
    let context: UcxContext | undefined;
    let store: NatsStore | undefined;
    let bridge: Bridge | undefined;
    try {
      context = UcxContext.open(networkInterface);
      store = await NatsStore.connect(nats, `cuda-ipc bridge of ${machine}`, deadline, log);
      const directory = new Directory(machine, log);
      const trusted = await hub.trustedUsers(deadline.rest());
      const [uid = ownUid()] = trusted;
      const workers = new Set([...trusted, ...options.workers]);
      bridge = new Bridge({ options, uid, workers, claim, store, context, directory });
      await bridge.#begin(deadline);
      return bridge;
    } catch (error) {
      if (bridge !== undefined) await bridge.close();
      else {
        await store?.close();
        context?.close();
        claim.release();
      }
      throw error;
    }
  }

  get ucx(): Pick<UcxContext, "path" | "version" | "transports"> {
    return this.#parts.context;
  }

  get natsVersion(): string {
    return this.#parts.store.serverVersion;
  }

  /** What the bridge knows, a page of names at a time. */
  status(after?: string): BridgeStatus {
    const { options, store, context, directory } = this.#parts;
    const { awaySinceMs } = store;
    return statusOf(
      {
        machine: options.machine,
        namesAwayMs: awaySinceMs === undefined ? null : Math.round(performance.now() - awaySinceMs),
        ucx: context.version,
        transports: context.transports(),
        fetches: this.#fetches.fetches,
        refused: this.#announcer.refused,
        carried: this.#fetches.carried,
        serving: [...this.#serving],
        workers: this.#workers,
      },
      directory,
      after,
    );
  }

  /** Takes the names of this machine back. Copies stay, and the next bridge goes on with them. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    const { store, context, claim, options } = this.#parts;
    const reason = new CudaIpcError("CLOSED", "Cannot copy: the bridge is ending");
    this.#fetches.close(reason);
    this.#workers.close(reason);
    this.#local.close();
    this.#links.close();
    const goodbye = this.#sayGoodbye();
    const limit = { timeoutMs: GOODBYE_MS };
    await new Deadline("take names back", limit, GOODBYE_MS)
      .race(goodbye, () => {})
      .catch((error) => options.log(messageOf(error)));
    await store.close();
    context.close();
    claim.release();
  }

  async #begin(deadline: Deadline): Promise<void> {
    const { options, store, directory } = this.#parts;
    const { machine, log, hub } = options;
    await store.watch(directory);
    const record: MachineRecord = {
      v: MACHINES_VERSION,
      machine,
      instance: this.#instance,
      place: `${ownIdentity().bootId} ${hub.socketPath}`,
      ucx: this.#parts.context.version,
      ready: false,
    };
    this.#presence = await Presence.claim(store, record, deadline, log, {
      onRestored: () => {
        // NATS may have lost the bucket, and another bridge may have made a new one.
        store.watchAnew();
        this.#looking.now();
      },
      onLost: (reason) => this.#fail(reason),
    });
    await this.#untilAnnounced(deadline);
  }

  /** The first look, and all that follow from it. */
  async #untilAnnounced(deadline: Deadline): Promise<void> {
    const { directory } = this.#parts;
    const announced = new Promise<void>((resolve) => {
      const stop = directory.onChange(() => {
        if (!this.#isReady) return;
        stop();
        resolve();
      });
    });
    this.#looking.now();
    await deadline.race(announced, () => {});
  }

  get #isReady(): boolean {
    const found = this.#parts.directory.machine(this.#parts.options.machine)?.record;
    return found?.instance === this.#instance && found.ready;
  }

  /** Compares hub and NATS, and acts. Returns false if something is left for the next look. */
  async #look(): Promise<boolean> {
    const { options, store, directory } = this.#parts;
    const { hub, machine, log, signal } = options;
    if (!this.#open) return true;
    try {
      const objects = await hub.list({ signal });
      await this.#replicas.keepInStep(objects);
      if (!directory.isCurrent || store.awaySinceMs !== undefined) return false;
      const announced = announcedOf(objects, machine, this.#rule);
      const { names, services } = this.#room.fit(announced);
      const areNamesWritten = await this.#announcer.announce(names);
      const areServicesWritten = await this.#services.announce(services);
      const isDone = areNamesWritten && areServicesWritten;
      if (isDone) await this.#presence?.setReady(true);
      const isTidy = await this.#gone.tidy();
      return isDone && isTidy;
    } catch (error) {
      if (this.#open && !signal.aborted) log(messageOf(error));
      return false;
    }
  }

  /** First the machine, then its names: nobody must take a bridge's end for the end of objects. */
  async #sayGoodbye(): Promise<void> {
    await this.#looking.close();
    await this.#presence?.close();
    const { store, directory } = this.#parts;
    if (store.awaySinceMs !== undefined || !directory.isCurrent || this.#presence === undefined)
      return;
    await this.#announcer.announce(new Map());
    await this.#services.announce(new Set());
  }
}

/** As the end of a sentence. */
function awayWords({ awaySinceMs }: Pick<NameStore, "awaySinceMs">): string {
  if (awaySinceMs === undefined) return "";
  const seconds = Math.round((performance.now() - awaySinceMs) / 1000);
  return `, and NATS has not answered for ${seconds} s`;
}
