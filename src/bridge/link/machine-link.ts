/**
 * A link to the bridge of another machine: calls and answers in sealed frames, and bytes of arrays
 * as messages with random tags. It ends once, with a reason: the other side is gone, silent for too
 * long, or not what it claims. Then UCX uses none of its memory any more.
 */
import { randomBytes } from "node:crypto";
import { Deadline } from "../../base/deadline.js";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import {
  memoryOf,
  type PostedReceive,
  type UcxMemory,
  type UcxWorker,
} from "../../ucx/ucx-worker.js";
import {
  type CarriedMessage,
  decodeCarriedFrame,
  encodeMessage,
  encodeMore,
  isCarriedFrame,
} from "../../wire/carried-frames.js";
import { checked } from "../../wire/codec.js";
import {
  type CallResult,
  callResults,
  decodeLinkMessage,
  encodeLinkMessage,
  type Frame,
  frameSchema,
  type LinkAnswer,
  type LinkCall,
} from "../../wire/link-messages.js";
import type { BytesSeal } from "./bytes-seal.js";
import { ChannelRead } from "./channel-read.js";
import { FRAME_BYTES_MAX, type FrameSeal } from "./frame-seal.js";
import type { LinkServer } from "./link-server.js";
import { Liveness } from "./liveness.js";
import { peerGone } from "./peer-gone.js";

/** The tag of all frames. */
const FRAME_TAG = 1n;
/** The bit that all tags of bytes have. Each is made by the side that receives. */
const BYTES_TAG = 1n << 63n;
/** Frames that may come in while earlier ones are handled. UCX keeps further ones itself. */
const FRAMES_POSTED = 8;
const UNLIMITED = new Deadline("call a machine", {}, Number.POSITIVE_INFINITY);

/** A call without its id, which the link gives. */
type Asked<Op extends LinkCall["op"]> = Omit<Extract<LinkCall, { readonly op: Op }>, "id">;

interface PendingCall {
  resolve(result: unknown): void;
  reject(reason: unknown): void;
}

export class MachineLink {
  readonly machine: string;
  readonly server: LinkServer;
  readonly #worker: UcxWorker;
  readonly #seal: FrameSeal;
  readonly #calls = new Map<number, PendingCall>();
  readonly #reads = new Map<number, ChannelRead>();
  readonly #onEnd = new Set<(reason: CudaIpcError) => void>();
  readonly #liveness: Liveness;
  #lastId = 0;
  /** Calls of the other side whose answers have not been sent. */
  #answering = 0;
  #ended: CudaIpcError | undefined;

  /** Takes over the worker, which must be connected. */
  constructor(machine: string, worker: UcxWorker, seal: FrameSeal, server: LinkServer) {
    this.machine = machine;
    this.#worker = worker;
    this.#seal = seal;
    this.server = server;
    worker.dropUnasked(BYTES_TAG);
    this.#liveness = new Liveness({
      onDead: (found) => this.end(peerGone(machine, found)),
      // While nobody writes to a channel, or slow readers hold it up, nothing is sent for it.
      isUsed: () => this.#reads.size > 0,
      greet: () => void this.call({ op: "hello" }, UNLIMITED).catch(() => {}),
    });
    void this.#receiveFrames();
  }

  get open(): boolean {
    return this.#ended === undefined;
  }

  get bytesSeal(): BytesSeal {
    return this.#seal.bytes;
  }

  get heardMs(): number {
    return this.#liveness.heardMs;
  }

  /** Calls the listener once, also if the link has ended. */
  onEnd(listener: (reason: CudaIpcError) => void): void {
    if (this.#ended === undefined) this.#onEnd.add(listener);
    else listener(this.#ended);
  }

  /**
   * Calls the other side.
   * @throws what it answered; PEER_GONE, UNTRUSTED_PEER after the end; TIMEOUT, ABORTED
   */
  async call<Op extends LinkCall["op"]>(
    asked: Asked<Op> & { readonly op: Op },
    deadline: Deadline,
  ): Promise<CallResult<Op>> {
    deadline.check();
    this.#checkOpen();
    this.#lastId += 1;
    return this.#liveness.owed(this.#answerTo<Op>(this.#lastId, asked, deadline));
  }

  /**
   * Reads a channel that the other side lends, until it ends or the deadline.
   * @param count of the messages that the other side may send before more are asked for
   * @throws as `call`, at once or from `next`
   */
  read(channel: number, count: number, deadline: Deadline): ChannelRead {
    deadline.check();
    this.#checkOpen();
    this.#lastId += 1;
    const id = this.#lastId;
    const read = new ChannelRead(count, {
      ask: (more) => {
        if (this.open) void this.#send(encodeMore({ read: id, count: more }));
      },
      end: () => {
        this.#reads.delete(id);
        this.#calls.delete(id);
      },
    });
    this.#reads.set(id, read);
    // WHY not owed: there may be no message for a long time.
    this.#answerTo<"read">(id, { op: "read", channel, count }, deadline).then(
      (ended) => read.end(ended),
      (failure) => read.end({ failure }),
    );
    return read;
  }

  /** Sends a message that was asked for. Resolves when UCX has taken it. @throws PEER_GONE */
  async sendMessage(message: Omit<CarriedMessage, "kind">, bytes?: Uint8Array): Promise<void> {
    this.#checkOpen();
    await this.#send(encodeMessage(message), bytes);
  }

  /**
   * Prepares to receive bytes of an array. The tag goes to the other side in a call.
   * SAFETY: the memory is UCX's until `byteLength` settles; see `UcxWorker.receive`.
   */
  receiveBytes(target: UcxMemory): PostedReceive & { readonly tag: string } {
    this.#checkOpen();
    const bits = randomBytes(8);
    bits[0] = (bits[0] ?? 0) | 0x80;
    const posted = this.#worker.receive(target, bits.readBigUInt64BE());
    const byteLength = this.#liveness.owed(posted.byteLength).catch((error) => {
      throw this.#ended ?? error;
    });
    return { byteLength, cancel: () => posted.cancel(), tag: bits.toString("hex") };
  }

  /** Resolves when UCX needs the bytes no more. @throws PEER_GONE */
  async sendBytes(bytes: UcxMemory, tag: string): Promise<void> {
    this.#checkOpen();
    try {
      // WHY owed: a machine that takes nothing would keep the memory from which UCX sends.
      await this.#liveness.owed(this.#worker.send(bytes, BigInt(`0x${tag}`)));
    } catch (error) {
      throw this.#ended ?? error;
    }
  }

  /** Ends the link. Everything that waits gets the reason. */
  end(reason: CudaIpcError): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#liveness.close();
    try {
      this.#worker.close();
    } finally {
      this.#seal.close();
      for (const { reject } of this.#calls.values()) reject(reason);
      for (const listener of this.#onEnd) listener(reason);
      this.#onEnd.clear();
    }
  }

  close(): void {
    const message = `Cannot use the link to machine "${this.machine}": it was closed`;
    this.end(new CudaIpcError("CLOSED", message));
  }

  /** The other side is gone: the handler that was given to `UcxWorker.connect`. */
  fail(cause: CudaIpcError): void {
    this.end(peerGone(this.machine, cause.message, cause));
  }

  async #receiveFrames(): Promise<void> {
    const post = (memory: Uint8Array) => {
      // WHY by that bit: UCX would keep messages with other tags, for which nothing waits.
      const posted = this.#worker.receive(memoryOf(memory), FRAME_TAG, BYTES_TAG);
      // Handled when its turn comes.
      posted.byteLength.catch(() => {});
      return { memory, posted };
    };
    try {
      const receives = Array.from({ length: FRAMES_POSTED }, () =>
        post(new Uint8Array(new ArrayBuffer(FRAME_BYTES_MAX))),
      );
      for (;;) {
        // In the order of posting, which is the order of sending.
        const next = receives.shift();
        if (next === undefined) return;
        const byteLength = await next.posted.byteLength;
        this.#liveness.heard();
        const { head, bytes } = this.#seal.open(next.memory.subarray(0, byteLength));
        receives.push(post(next.memory));
        this.#handle(head, bytes);
      }
    } catch (error) {
      const reason =
        error instanceof CudaIpcError
          ? error
          : new CudaIpcError("SYSTEM_ERROR", messageOf(error), { cause: error });
      this.end(reason);
    }
  }

  #handle(head: Uint8Array, bytes: Uint8Array): void {
    const what = `a frame of "${this.machine}"`;
    if (!isCarriedFrame(head)) {
      this.#handleCall(decodeLinkMessage(what, frameSchema, head));
      return;
    }
    const frame = decodeCarriedFrame(what, head);
    if (frame.kind === "more") this.server.more(frame);
    // A read that this side has given up gets messages until the other side knows.
    else this.#reads.get(frame.read)?.arrive({ message: frame, bytes });
  }

  #handleCall(frame: Frame): void {
    if ("ok" in frame) this.#settle(frame);
    else if (this.#answering < limits.linkCallsMax) void this.#reply(frame);
    else {
      const found = `${limits.linkCallsMax} calls of it are under way (linkCallsMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot answer "${this.machine}": ${found}`);
    }
  }

  async #answerTo<Op extends LinkCall["op"]>(
    id: number,
    asked: Asked<Op> & { readonly op: Op },
    deadline: Deadline,
  ): Promise<CallResult<Op>> {
    const answered = new Promise<unknown>((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
    });
    try {
      void this.#send(encodeLinkMessage({ ...asked, id } as unknown as LinkCall));
      const result = await deadline.race(answered, () => {});
      const what = `the answer of machine "${this.machine}" to "${asked.op}"`;
      return checked(what, callResults[asked.op], result) as CallResult<Op>;
    } finally {
      this.#calls.delete(id);
    }
  }

  #settle(answer: LinkAnswer): void {
    const call = this.#calls.get(answer.id);
    if (call !== undefined) this.#liveness.paid();
    if (answer.ok) call?.resolve(answer.result);
    else call?.reject(this.#errorOf(answer.error));
  }

  #errorOf({ code, message }: { readonly code: string; readonly message: string }): CudaIpcError {
    const found = `${message} (on machine "${this.machine}")`;
    return new CudaIpcError(isErrorCode(code) ? code : "SYSTEM_ERROR", found);
  }

  async #reply(call: LinkCall): Promise<void> {
    const { id } = call;
    this.#answering += 1;
    try {
      // WHY awaited: answers to a machine that does not read them would fill the memory.
      await this.#sendAnswer({ id, ok: true, result: await this.server.answer(call) });
    } catch (error) {
      const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
      const told = { code, message: messageOf(error).slice(0, 1024) };
      await this.#sendAnswer({ id, ok: false, error: told });
    } finally {
      this.#answering -= 1;
    }
  }

  async #sendAnswer(answer: LinkAnswer): Promise<void> {
    if (this.#ended === undefined) await this.#send(encodeLinkMessage(answer));
  }

  /** Resolves when UCX has taken the frame. @throws MESSAGE_TOO_LARGE, at once */
  #send(head: Uint8Array, bytes?: Uint8Array): Promise<void> {
    const sealed = this.#seal.seal(head, bytes);
    this.#liveness.sent();
    return this.#worker.send(memoryOf(sealed), FRAME_TAG).catch((error) => {
      if (error instanceof CudaIpcError) this.fail(error);
    });
  }

  #checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }
}
