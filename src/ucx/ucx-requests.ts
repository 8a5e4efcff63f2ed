/**
 * The requests of one UCX worker that are under way. It holds the memory that UCX uses until each
 * has ended.
 */
import type { CudaIpcError } from "../base/errors.js";
import type { Libucp } from "../ffi/libucp.js";
import { ucsStatus, ucxError } from "./ucx-status.js";

interface PendingRequest {
  readonly verb: string;
  /** Of a receive. */
  readonly tag: bigint | undefined;
  /** WHY held: the memory must not be collected while UCX uses it. */
  readonly memory: { readonly byteLength: number; readonly owner?: Uint8Array };
  settled: Promise<number> | undefined;
  resolve(byteLength: number): void;
  reject(reason: CudaIpcError): void;
}

export class PendingRequests {
  readonly #functions: Libucp;
  readonly #worker: bigint;
  readonly #pending = new Map<bigint, PendingRequest>();
  /** `ucp_tag_recv_info_t`: the sender's tag and the length. */
  readonly #info = new BigUint64Array(new ArrayBuffer(16));

  constructor(functions: Libucp, worker: bigint) {
    this.#functions = functions;
    this.#worker = worker;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** @returns the bytes that were sent or received */
  add(
    request: bigint,
    verb: string,
    memory: PendingRequest["memory"],
    tag?: bigint,
  ): Promise<number> {
    const settled = new Promise<number>((resolve, reject) => {
      this.#pending.set(request, { verb, tag, memory, settled: undefined, resolve, reject });
    });
    const pending = this.#pending.get(request);
    if (pending !== undefined) pending.settled = settled;
    return settled;
  }

  /**
   * WHY also the promise: UCX gives the number of a request that has ended to a later one.
   * @returns false if the request has ended
   */
  cancel(request: bigint, settled: Promise<number>): boolean {
    if (this.#pending.get(request)?.settled !== settled) return false;
    this.#functions.ucp_request_cancel(this.#worker, request);
    this.pollOne(request);
    return true;
  }

  cancelAll(): void {
    for (const request of this.#pending.keys())
      this.#functions.ucp_request_cancel(this.#worker, request);
  }

  /** Settles what has ended. Returns whether anything has. */
  poll(): boolean {
    const before = this.#pending.size;
    // Messages with one tag end in the order of their receives. Each question is a call of UCX.
    let waitingTag: bigint | undefined;
    for (const [request, pending] of this.#pending) {
      if (pending.tag !== undefined && pending.tag === waitingTag) continue;
      if (!this.#settle(request, pending)) waitingTag = pending.tag;
    }
    return this.#pending.size < before;
  }

  /** Settles this one if it has ended. */
  pollOne(request: bigint): void {
    const pending = this.#pending.get(request);
    if (pending !== undefined) this.#settle(request, pending);
  }

  /** Returns whether it has ended. */
  #settle(request: bigint, pending: PendingRequest): boolean {
    const status = this.#statusOf(request, pending);
    if (status === ucsStatus.UCS_INPROGRESS) return false;
    this.#pending.delete(request);
    this.#functions.ucp_request_free(request);
    if (status !== ucsStatus.UCS_OK) pending.reject(ucxError(`${pending.verb} a message`, status));
    else if (pending.verb === "receive") pending.resolve(Number(this.#info[1] ?? 0n));
    else pending.resolve(pending.memory.byteLength);
    return true;
  }

  /** After the end of the worker, which has ended them all. */
  abandon(reason: CudaIpcError): void {
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  #statusOf(request: bigint, { verb }: PendingRequest): number {
    return verb === "receive"
      ? this.#functions.ucp_tag_recv_request_test(request, this.#info)
      : this.#functions.ucp_request_check_status(request);
  }
}
