/**
 * A UCX worker on the event loop, with one endpoint to one other worker. Tagged messages go out
 * from memory and come into memory without a copy of ours. Nothing polls: while nothing happens,
 * the worker sleeps on its event descriptor.
 */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { viewMemory } from "../ffi/koffi.js";
import { type Libucp, type RequestPointer, registerEndpointHandler } from "../ffi/libucp.js";
import { FdWatch } from "../os/fd-watch.js";
import { addressOf } from "../os/host-memory.js";
import { OwnedFd } from "../os/owned-fd.js";
import type { UcxContext } from "./ucx-context.js";
import { PendingRequests } from "./ucx-requests.js";
import { checkLocalStatus, checkStatus, startedBy, ucsStatus, ucxError } from "./ucx-status.js";
import {
  endpointParams,
  forceCloseParams,
  receiveParams,
  sendParams,
  workerParams,
} from "./ucx-structs.js";

/** Work of UCX in one turn of the event loop. A call of progress takes up to some 100 us. */
const TURN_MS = 1;
/** Calls of progress at the end, so that UCX can finish what it can. */
const LAST_CALLS = 1000;

/** Memory that UCX reads or writes. */
export interface UcxMemory {
  readonly address: bigint;
  readonly byteLength: number;
  /** JavaScript's memory at that address, to keep it from being collected. */
  readonly owner?: Uint8Array;
}

/** SAFETY: the bytes must not be in V8's heap, as those of a `new ArrayBuffer` are not. */
export function memoryOf(bytes: Uint8Array): UcxMemory {
  return { address: addressOf(bytes), byteLength: bytes.byteLength, owner: bytes };
}

/** A receive that has been posted. */
export interface PostedReceive {
  /** The bytes that came. Rejects with ABORTED after `cancel`. */
  readonly byteLength: Promise<number>;
  /** The memory is UCX's until `byteLength` settles. Without effect if a message has come. */
  cancel(): void;
}

export class UcxWorker {
  /** By which another worker connects to this one. */
  readonly address: Uint8Array;
  readonly #functions: Libucp;
  readonly #handle: bigint;
  readonly #watch: FdWatch;
  readonly #fd: OwnedFd;
  readonly #requests: PendingRequests;
  /** `ucp_tag_recv_info_t` of the latest dropped message. */
  readonly #probed = new BigUint64Array(new ArrayBuffer(16));
  #endpoint: { readonly handle: bigint; unregister(): void } | undefined;
  #onFailure: ((failure: CudaIpcError) => void) | undefined;
  #unaskedBits = 0n;
  #scheduled = false;
  #open = true;

  private constructor(functions: Libucp, handle: bigint, fd: OwnedFd) {
    this.#functions = functions;
    this.#handle = handle;
    this.#fd = fd;
    this.address = addressOfWorker(functions, handle);
    this.#requests = new PendingRequests(functions, handle);
    this.#watch = new FdWatch(fd, () => this.#turn());
    this.#schedule();
  }

  static create(context: UcxContext): UcxWorker {
    const { functions } = context;
    return acquireIn((scope) => {
      const worker = new BigUint64Array(new ArrayBuffer(8));
      checkLocalStatus(
        "create a worker",
        functions.ucp_worker_create(context.handle, workerParams(), worker),
      );
      const handle = scope.own(worker[0] ?? 0n, (it) => functions.ucp_worker_destroy(it));
      const efd = new Int32Array(new ArrayBuffer(4));
      checkLocalStatus("watch a worker", functions.ucp_worker_get_efd(handle, efd));
      const fd = scope.own(duplicateOf(efd[0] ?? -1), (it) => it.close());
      return new UcxWorker(functions, handle, fd);
    });
  }

  /**
   * Connects to a worker by its address. UCX connects in the background.
   * @param onFailure called once, in a turn of its own, if the other side is gone
   * @throws UNSUPPORTED if no transport reaches it, INVALID_MESSAGE if it is no address
   */
  connect(address: Uint8Array, onFailure: (failure: CudaIpcError) => void): void {
    this.#checkOpen();
    if (this.#endpoint !== undefined) throw new TypeError("this worker is connected already");
    this.#onFailure = onFailure;
    acquireIn((scope) => {
      const handler = registerEndpointHandler((_endpoint, status) => this.#fail(status));
      scope.defer(() => handler.unregister());
      // SAFETY: UCX reads the address in this call only. It must lie outside of V8's heap.
      const bytes = new Uint8Array(new ArrayBuffer(address.byteLength));
      bytes.set(address);
      const endpoint = new BigUint64Array(new ArrayBuffer(8));
      const params = endpointParams(addressOf(bytes), handler.address);
      checkStatus(
        "connect to the other machine",
        this.#functions.ucp_ep_create(this.#handle, params, endpoint),
      );
      const unregister = () => handler.unregister();
      this.#endpoint = { handle: endpoint[0] ?? 0n, unregister };
    });
    this.#schedule();
  }

  /**
   * Sends a message. Resolves when UCX needs the bytes no more, which the other side may not have
   * received by then. SAFETY: the memory stays mapped until this settles.
   */
  send(memory: UcxMemory, tag: bigint): Promise<void> {
    this.#checkOpen();
    if (this.#endpoint === undefined) throw new TypeError("this worker is not connected");
    const pointer = this.#functions.ucp_tag_send_nbx(
      this.#endpoint.handle,
      memory.address,
      memory.byteLength,
      tag,
      sendParams,
    );
    return this.#settled("send", pointer, memory).then(() => undefined);
  }

  /**
   * Receives one message with this tag. SAFETY: as for `send`.
   * @param bits of the tag that count
   */
  receive(memory: UcxMemory, tag: bigint, bits = ALL_BITS): PostedReceive {
    this.#checkOpen();
    const pointer = this.#functions.ucp_tag_recv_nbx(
      this.#handle,
      memory.address,
      memory.byteLength,
      tag,
      bits,
      receiveParams,
    );
    const byteLength = this.#settled("receive", pointer, memory, tag);
    const started = startedBy(pointer);
    const cancel = () => {
      if (started.state !== "pending") return;
      if (this.#requests.cancel(started.request, byteLength)) this.#schedule();
    };
    return { byteLength, cancel };
  }

  /**
   * From now on drops each message whose tag has these bits and that nothing waits for when it
   * comes. WHY: UCX would keep its bytes until the end of the worker, and its sender would wait.
   */
  dropUnasked(bits: bigint): void {
    this.#unaskedBits = bits;
    this.#drop();
  }

  /**
   * Ends everything that is under way, with CLOSED, and frees the worker. Afterwards UCX touches no
   * memory that it was given.
   */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#onFailure = undefined;
    releaseAll([
      () => this.#watch.close(),
      () => this.#fd.close(),
      () => this.#closeEndpoint(),
      () => this.#functions.ucp_worker_destroy(this.#handle),
      () => this.#endpoint?.unregister(),
      () => this.#requests.abandon(closedWorker()),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #settled(
    verb: string,
    pointer: RequestPointer,
    memory: UcxMemory,
    tag?: bigint,
  ): Promise<number> {
    const started = startedBy(pointer);
    if (started.state === "done") return Promise.resolve(memory.byteLength);
    if (started.state === "failed")
      return Promise.reject(ucxError(`${verb} a message`, started.status));
    const settled = this.#requests.add(started.request, verb, memory, tag);
    // WHY no turn, which takes eight system calls: the worker is armed, and wakes up for the rest.
    this.#requests.pollOne(started.request);
    return settled;
  }

  #schedule(): void {
    if (this.#scheduled || !this.#open) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#turn();
    });
  }

  /** Lets UCX work, for a millisecond at most. Sleeps if there is nothing to do. */
  #turn(endMs: number = performance.now() + TURN_MS): void {
    if (!this.#open) return;
    let busy = true;
    while (busy && performance.now() < endMs) {
      busy = this.#functions.ucp_worker_progress(this.#handle) !== 0;
      // Each question is a call of UCX, and nothing ends without progress.
      if (!busy) break;
      const isNews = this.#requests.poll();
      this.#drop();
      if (!isNews) continue;
      // WHY: a message is handled before the next calls of UCX, which take several system calls.
      queueMicrotask(() => process.nextTick(() => this.#turn(endMs)));
      return;
    }
    if (!this.#open) return;
    // SYNC: arming fails if something happened since the last progress, so nothing is missed.
    if (busy || this.#functions.ucp_worker_arm(this.#handle) === ucsStatus.UCS_ERR_BUSY)
      this.#schedule();
    else this.#watch.setAwaited(true);
  }

  #drop(): void {
    const bits = this.#unaskedBits;
    if (bits === 0n) return;
    const { ucp_tag_probe_nb, ucp_tag_msg_recv_nbx } = this.#functions;
    for (;;) {
      const message = ucp_tag_probe_nb(this.#handle, bits, bits, 1, this.#probed);
      if (BigInt(message) === 0n) return;
      const pointer = ucp_tag_msg_recv_nbx(
        this.#handle,
        NOWHERE.address,
        0,
        message,
        receiveParams,
      );
      // Rejects, because the message is longer than nothing.
      this.#settled("drop", pointer, NOWHERE).catch(() => {});
    }
  }

  /** Runs inside a call of UCX, so it only schedules. */
  #fail(status: number): void {
    const onFailure = this.#onFailure;
    this.#onFailure = undefined;
    if (onFailure === undefined) return;
    setImmediate(() => onFailure(ucxError("reach the other machine", status)));
  }

  #closeEndpoint(): void {
    this.#requests.cancelAll();
    const closing =
      this.#endpoint === undefined
        ? undefined
        : startedBy(this.#functions.ucp_ep_close_nbx(this.#endpoint.handle, forceCloseParams));
    for (let call = 0; call < LAST_CALLS; call += 1) {
      this.#functions.ucp_worker_progress(this.#handle);
      this.#requests.poll();
      const isClosed =
        closing?.state !== "pending" ||
        this.#functions.ucp_request_check_status(closing.request) !== ucsStatus.UCS_INPROGRESS;
      if (isClosed && this.#requests.size === 0) break;
    }
    if (closing?.state === "pending") this.#functions.ucp_request_free(closing.request);
  }

  #checkOpen(): void {
    if (!this.#open) throw closedWorker();
  }
}

/** Where bytes go that nobody asked for. */
const NOWHERE = memoryOf(new Uint8Array(new ArrayBuffer(8)));

const ALL_BITS = 0xffff_ffff_ffff_ffffn;

function closedWorker(): CudaIpcError {
  return new CudaIpcError("CLOSED", "Cannot use the link to the other machine: it was closed");
}

function addressOfWorker(functions: Libucp, worker: bigint): Uint8Array {
  const address = new BigUint64Array(new ArrayBuffer(8));
  const byteLength = new BigUint64Array(new ArrayBuffer(8));
  const attempt = "ask a worker for its address";
  checkStatus(attempt, functions.ucp_worker_get_address(worker, address, byteLength));
  const [pointer = 0n] = address;
  // SAFETY: copied before UCX frees it.
  const bytes = Uint8Array.from(new Uint8Array(viewMemory(pointer, Number(byteLength[0] ?? 0n))));
  functions.ucp_worker_release_address(worker, pointer);
  return bytes;
}

/** UCX closes its own descriptor. A duplicate of an epoll descriptor reports the same events. */
function duplicateOf(efd: number): OwnedFd {
  const own = new OwnedFd(efd);
  try {
    return own.duplicate();
  } finally {
    own.take();
  }
}
