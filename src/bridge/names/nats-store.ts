/** Names in NATS: one bucket of JetStream's key-value store, and one subject for each bridge. */
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { type Bucket, BucketWatch, entryOf } from "./bucket-watch.js";
import { ClientSockets } from "./client-sockets.js";
import { loadNats, type NatsClient } from "./load-nats.js";
import type { NameEntry, NameStore, NameWatcher, WriteOptions } from "./name-store.js";
import { connectionOptions, type NatsOptions, natsError } from "./nats-options.js";

type Connection = Awaited<ReturnType<NatsClient["transport"]["connect"]>>;

const MAJOR_MIN = 2;
const MINOR_MIN = 11;
const REQUEST_MS = 5000;
/** WHY certificates: a server that misses one closes the connection, and the client tries again. */
const SILENT =
  "no server answers, or it wants a certificate: see --tls-ca, --tls-cert and --tls-key";
/** How long NATS tells of a removed key. Watchers that were away longer look at all keys anyway. */
const MARKER_MS = 60_000;
/**
 * Answers go nowhere else. Otherwise a program that may ask, but not write to the bucket, could
 * name a key of it, and the bridge would write there.
 */
const INBOX = "_INBOX.";
/** JetStream's error for a write that expected another revision. */
const WRONG_LAST_SEQUENCE = 10_071;
/** JetStream's error for a lifetime in a stream that allows none. */
const TTL_DISABLED = 10_166;
const FOREIGN_BUCKET =
  "Another program made this bucket. Give all bridges another one with --bucket, or remove it.";

export class NatsStore implements NameStore {
  readonly #client: NatsClient;
  readonly #options: NatsOptions;
  readonly #connection: Connection;
  readonly #sockets: ClientSockets;
  readonly #log: (line: string) => void;
  #bucket: Bucket;
  #watch: BucketWatch | undefined;
  #awaySinceMs: number | undefined;
  #open = true;

  private constructor(
    client: NatsClient,
    options: NatsOptions,
    connection: Connection,
    sockets: ClientSockets,
    bucket: Bucket,
    log: (line: string) => void,
  ) {
    this.#client = client;
    this.#options = options;
    this.#connection = connection;
    this.#sockets = sockets;
    this.#bucket = bucket;
    this.#log = log;
    void this.#followStatus();
  }

  /** @throws ENGINE_NOT_FOUND; NATS_UNAVAILABLE; ABORTED */
  static async connect(
    options: NatsOptions,
    name: string,
    deadline: Deadline,
    log: (line: string) => void,
  ): Promise<NatsStore> {
    const client = await loadNats();
    const given = connectionOptions(client.transport, options, name);
    const sockets = new ClientSockets();
    const connecting = sockets.run(() => client.transport.connect(given));
    let connection: Connection;
    try {
      connection = await deadline.race(connecting, () => {
        connecting.then(
          (late) => late.close(),
          () => {},
        );
      });
    } catch (error) {
      sockets.close();
      if (error instanceof CudaIpcError) throw error;
      const isSilent = error instanceof client.transport.errors.TimeoutError;
      throw natsError("connect", options.url, isSilent ? new Error(SILENT) : error);
    }
    try {
      checkServer(connection, options.url);
      const bucket = await openBucket(client, connection, options);
      return new NatsStore(client, options, connection, sockets, bucket, log);
    } catch (error) {
      await connection.close();
      sockets.close();
      throw error;
    }
  }

  get serverVersion(): string {
    return this.#connection.info?.version ?? "unknown";
  }

  get awaySinceMs(): number | undefined {
    return this.#awaySinceMs;
  }

  async create(
    key: string,
    value: Uint8Array,
    options: WriteOptions = {},
  ): Promise<number | undefined> {
    const first = await this.#write(key, value, 0, options);
    if (first !== undefined) return first;
    // A removed key still has a revision for a while.
    const entry = await this.read(key);
    if (entry === undefined) return this.#write(key, value, 0, options);
    return entry.value === undefined ? this.#write(key, value, entry.revision, options) : undefined;
  }

  update(
    key: string,
    value: Uint8Array,
    revision: number,
    options: WriteOptions = {},
  ): Promise<number | undefined> {
    return this.#write(key, value, revision, options);
  }

  async remove(key: string, revision: number): Promise<boolean> {
    return (await this.#write(key, new Uint8Array(0), revision, { removes: true })) !== undefined;
  }

  async read(key: string): Promise<NameEntry | undefined> {
    try {
      const entry = await this.#bucket.get(key);
      return entry === null ? undefined : entryOf(entry);
    } catch (error) {
      throw natsError(`read ${key}`, this.#options.url, error);
    }
  }

  async watch(watcher: NameWatcher): Promise<void> {
    const url = this.#options.url;
    this.#watch = new BucketWatch(
      {
        open: async () => {
          // The server may have lost the bucket, or have changed it while this bridge was away.
          this.#bucket = await openBucket(this.#client, this.#connection, this.#options);
          return this.#bucket;
        },
        explained: (error) => natsError("watch names", url, error),
        onBegun: () => this.#answers(),
        onFailed: () => this.#isAway(),
        log: this.#log,
      },
      watcher,
    );
    await this.#watch.begin();
  }

  watchAnew(): void {
    this.#watch?.again();
  }

  async ask(subject: string, bytes: Uint8Array, deadline: Deadline): Promise<Uint8Array> {
    deadline.check();
    const timeout = Math.max(1, Math.min(REQUEST_MS, deadline.remainingMs));
    const { errors } = this.#client.transport;
    const full = `${this.#prefix}.${subject}`;
    try {
      const asked = this.#connection.request(full, bytes, { timeout });
      const message = await deadline.race(asked, () => {});
      return message.data;
    } catch (error) {
      if (error instanceof CudaIpcError) throw error;
      if (error instanceof errors.RequestError && error.isNoResponders())
        throw new CudaIpcError("PEER_GONE", `Cannot ask ${subject}: no bridge serves it`, {
          cause: error,
        });
      if (error instanceof errors.TimeoutError)
        throw new CudaIpcError("PEER_GONE", `Cannot ask ${subject}: no answer in ${timeout} ms`, {
          cause: error,
        });
      throw natsError(`ask ${subject}`, this.#options.url, error);
    }
  }

  serve(subject: string, answer: (bytes: Uint8Array) => Promise<Uint8Array>): void {
    this.#connection.subscribe(`${this.#prefix}.${subject}`, {
      callback: (error, message) => {
        if (error !== null) return this.#log(`NATS: ${error.message}`);
        if (!message.reply?.startsWith(INBOX)) return;
        answer(message.data).then(
          (bytes) => message.respond(bytes),
          (failure) => this.#log(`NATS: ${messageOf(failure)}`),
        );
      },
    });
  }

  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    this.#watch?.close();
    await this.#connection.close();
    this.#sockets.close();
  }

  get #prefix(): string {
    return `cuda-ipc.${this.#options.bucket}`;
  }

  /** The JavaScript client cannot give a put a lifetime, so this is the message that it sends. */
  async #write(
    key: string,
    value: Uint8Array,
    revision: number,
    { ttlMs, removes = false }: WriteOptions & { readonly removes?: boolean },
  ): Promise<number | undefined> {
    const headers = this.#client.transport.headers();
    headers.set("Nats-Expected-Last-Subject-Sequence", String(revision));
    if (ttlMs !== undefined) headers.set("Nats-TTL", `${Math.ceil(ttlMs / 1000)}s`);
    if (removes) headers.set("KV-Operation", "DEL");
    const { bucket, domain } = this.#options;
    // As the client of NATS writes it: a server maps the prefix to the bucket of this domain.
    const prefix = domain === undefined ? "" : `$JS.${domain}.API.`;
    const subject = `${prefix}$KV.${bucket}.${key}`;
    let reply: unknown;
    try {
      const timeout = REQUEST_MS;
      reply = (await this.#connection.request(subject, value, { headers, timeout })).json();
    } catch (error) {
      this.#checkBucket(error);
      throw natsError(`write ${key}`, this.#options.url, error);
    }
    const { seq, error } = reply as {
      readonly seq?: unknown;
      readonly error?: { readonly err_code?: unknown; readonly description?: unknown };
    };
    if (error?.err_code === WRONG_LAST_SEQUENCE) return undefined;
    if (error === undefined && typeof seq === "number" && Number.isSafeInteger(seq)) return seq;
    const remedy = error?.err_code === TTL_DISABLED ? FOREIGN_BUCKET : undefined;
    const found = String(error?.description ?? "no answer");
    throw natsError(`write ${key}`, this.#options.url, found, remedy);
  }

  async #followStatus(): Promise<void> {
    for await (const { type } of this.#connection.status()) {
      if (type === "disconnect") this.#isAway();
      if (type !== "reconnect") continue;
      // It answers once it tells of names again.
      if (this.#watch === undefined) this.#answers();
      else this.#watch.again();
    }
  }

  /**
   * Nobody takes a write: the bucket is gone, although the connection is there. Somebody removed
   * it, or the server that had it in memory ended, and another one of its cluster is connected.
   */
  #checkBucket(error: unknown): void {
    const { RequestError } = this.#client.transport.errors;
    if (!(error instanceof RequestError) || !error.isNoResponders()) return;
    this.#isAway();
    this.#watch?.again();
  }

  #isAway(): void {
    if (this.#awaySinceMs !== undefined || !this.#open) return;
    this.#awaySinceMs = performance.now();
    this.#log("NATS does not answer: what is here goes on, nothing new is found");
  }

  #answers(): void {
    if (this.#awaySinceMs === undefined) return;
    this.#awaySinceMs = undefined;
    this.#log("NATS answers again");
  }
}

async function openBucket(
  { kv, jetstream }: NatsClient,
  connection: Connection,
  { bucket, domain, url }: NatsOptions,
): Promise<Bucket> {
  try {
    // WHY in memory: every record is of a bridge that runs, which writes it again.
    const options = { history: 1, markerTTL: MARKER_MS, storage: "memory" } as const;
    const named = domain === undefined ? connection : jetstream()(connection, { domain });
    return await new kv.Kvm(named).create(bucket, options);
  } catch (error) {
    const where = domain === undefined ? "" : ` of the domain "${domain}"`;
    throw natsError(`open the bucket "${bucket}"${where}`, url, error);
  }
}

/** @throws NATS_UNAVAILABLE */
function checkServer({ info }: Connection, url: string): void {
  const [major = 0, minor = 0] = (info?.version ?? "").split(".").map(Number);
  if (major > MAJOR_MIN || (major === MAJOR_MIN && minor >= MINOR_MIN)) return;
  const wanted = `wanted ${MAJOR_MIN}.${MINOR_MIN} or newer`;
  throw natsError("use NATS", url, `the server is of version ${info?.version}, ${wanted}`);
}
