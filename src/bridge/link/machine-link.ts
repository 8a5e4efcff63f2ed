/**
 * A link to the bridge of another machine: calls and answers in sealed frames, and bytes of arrays
 * as messages with random tags. It ends once, with a reason: the other side is gone, silent for too
 * long, or not what it claims. Then UCX uses none of its memory any more.
 */
import { randomBytes } from "node:crypto";
import type { Deadline } from "../../base/deadline.js";
import { isErrorCode } from "../../base/error-codes.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import type { ChannelReader } from "../../channel/channel-reader.js";
import {
  memoryOf,
  type PostedReceive,
  type UcxMemory,
  type UcxWorker,
} from "../../ucx/ucx-worker.js";
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
import { Debt } from "./debt.js";
import { FRAME_BYTES_MAX, type FrameSeal } from "./frame-seal.js";

/** The tag of all frames. */
const FRAME_TAG = 1n;
/** The bit that all tags of bytes have. Each is made by the side that receives. */
const BYTES_TAG = 1n << 63n;
/** Frames that may come in while earlier ones are handled. UCX keeps further ones itself. */
const FRAMES_POSTED = 8;
const LOOK_MS = 1000;

/** A call without its id, which the link gives. */
type Asked<Op extends LinkCall["op"]> = Omit<Extract<LinkCall, { readonly op: Op }>, "id">;

/** An answer with bytes of a message, which travel in the same frame. */
export class AnswerWithBytes {
  readonly result: unknown;
  readonly bytes: Uint8Array;

  /** @param bytes at most `limits.carriedInlineBytes` */
  constructor(result: unknown, bytes: Uint8Array) {
    this.result = result;
    this.bytes = bytes;
  }
}

/** What this side does for the other one. */
export interface LinkServer {
  /** Answers a call, perhaps by an `AnswerWithBytes`. What it throws is sent as the answer. */
  answer(call: LinkCall): Promise<unknown>;
  /** Lets the other side read a channel with `next`. Returns its number on the link. */
  lend(lent: LentReader): number;
  /** Ends a loan, if it has not ended. */
  takeBack(channel: number): void;
}

/** A channel that the other side reads. */
export interface LentReader {
  readonly reader: ChannelReader;
  /** Changes the meta of a message before it is sent. */
  readonly metaOf?: ((meta: Uint8Array) => Uint8Array) | undefined;
  /** Called once, when the other side leaves it or the link ends. */
  close(): void;
}

interface PendingCall {
  resolve(answer: AnswerWithBytes): void;
  reject(reason: unknown): void;
}

export class MachineLink {
  readonly machine: string;
  readonly server: LinkServer;
  readonly #worker: UcxWorker;
  readonly #seal: FrameSeal;
  readonly #calls = new Map<number, PendingCall>();
  readonly #onEnd = new Set<(reason: CudaIpcError) => void>();
  readonly #look: NodeJS.Timeout;
  #lastId = 0;
  #heardMs = performance.now();
  readonly #debt = new Debt();
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
    this.#look = setInterval(() => this.#checkHeard(), LOOK_MS);
    this.#look.unref();
    void this.#receiveFrames();
  }

  get open(): boolean {
    return this.#ended === undefined;
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
    return (await this.callForBytes<Op>(asked, deadline)).result;
  }

  /** As `call`. The answer may have bytes of a message. */
  async callForBytes<Op extends LinkCall["op"]>(
    asked: Asked<Op> & { readonly op: Op },
    deadline: Deadline,
  ): Promise<{ readonly result: CallResult<Op>; readonly bytes: Uint8Array }> {
    deadline.check();
    this.#checkOpen();
    this.#lastId += 1;
    const id = this.#lastId;
    const answered = new Promise<AnswerWithBytes>((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
    });
    this.#debt.begin();
    try {
      void this.#send({ ...asked, id } as unknown as LinkCall);
      const { result, bytes } = await deadline.race(answered, () => {});
      const what = `the answer of machine "${this.machine}" to "${asked.op}"`;
      return { result: checked(what, callResults[asked.op], result) as CallResult<Op>, bytes };
    } finally {
      this.#debt.end();
      this.#calls.delete(id);
    }
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
    this.#debt.begin();
    const byteLength = posted.byteLength.then(
      (received) => {
        this.#debt.end();
        this.#heard();
        this.#debt.paid();
        return received;
      },
      (error) => {
        this.#debt.end();
        throw this.#ended ?? error;
      },
    );
    return { byteLength, cancel: () => posted.cancel(), tag: bits.toString("hex") };
  }

  /** Resolves when UCX needs the bytes no more. @throws PEER_GONE */
  async sendBytes(bytes: UcxMemory, tag: string): Promise<void> {
    this.#checkOpen();
    // WHY owed: a machine that takes nothing would keep the memory from which UCX sends.
    this.#debt.begin();
    try {
      await this.#worker.send(bytes, BigInt(`0x${tag}`));
      this.#heard();
      this.#debt.paid();
    } catch (error) {
      throw this.#ended ?? error;
    } finally {
      this.#debt.end();
    }
  }

  /** Ends the link. Everything that waits gets the reason. */
  end(reason: CudaIpcError): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    clearInterval(this.#look);
    try {
      this.#worker.close();
    } finally {
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
      const posted = this.#worker.receive(memoryOf(memory), FRAME_TAG);
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
        this.#heard();
        const { json, bytes } = this.#seal.open(next.memory.subarray(0, byteLength));
        receives.push(post(next.memory));
        this.#handle(decodeLinkMessage(`a frame of "${this.machine}"`, frameSchema, json), bytes);
      }
    } catch (error) {
      const reason =
        error instanceof CudaIpcError
          ? error
          : new CudaIpcError("SYSTEM_ERROR", messageOf(error), { cause: error });
      this.end(reason);
    }
  }

  #handle(frame: Frame, bytes: Uint8Array): void {
    if ("ok" in frame) this.#settle(frame, bytes);
    else if (this.#answering < limits.linkCallsMax) void this.#reply(frame);
    else {
      const found = `${limits.linkCallsMax} calls of it are under way (linkCallsMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot answer "${this.machine}": ${found}`);
    }
  }

  #settle(answer: LinkAnswer, bytes: Uint8Array): void {
    const call = this.#calls.get(answer.id);
    if (call !== undefined) this.#debt.paid();
    if (answer.ok) call?.resolve(new AnswerWithBytes(answer.result, bytes));
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
      const answer = await this.server.answer(call);
      const { result, bytes } =
        answer instanceof AnswerWithBytes ? answer : { result: answer, bytes: undefined };
      await this.#sendAnswer({ id, ok: true, result }, bytes);
    } catch (error) {
      const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
      const message = messageOf(error).slice(0, 1024);
      await this.#sendAnswer({ id, ok: false, error: { code, message } });
    } finally {
      this.#answering -= 1;
    }
  }

  async #sendAnswer(answer: LinkAnswer, bytes?: Uint8Array): Promise<void> {
    if (this.#ended === undefined) await this.#send(answer, bytes);
  }

  /** Resolves when UCX has taken the frame. @throws MESSAGE_TOO_LARGE, at once */
  #send(frame: Frame, bytes?: Uint8Array): Promise<void> {
    const sealed = this.#seal.seal(encodeLinkMessage(frame), bytes);
    return this.#worker.send(memoryOf(sealed), FRAME_TAG).catch((error) => {
      if (error instanceof CudaIpcError) this.fail(error);
    });
  }

  #heard(): void {
    this.#heardMs = performance.now();
  }

  #checkHeard(): void {
    const limit = defaults.machineSilenceMs;
    const nowMs = performance.now();
    if (nowMs - this.#heardMs >= limit)
      this.end(peerGone(this.machine, `nothing came from it for ${limit / 1000} s`));
    else if (this.#debt.isOverdue(nowMs, limit))
      this.end(
        peerGone(this.machine, `it has sent or taken nothing that it should for ${limit / 1000} s`),
      );
  }

  #checkOpen(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }
}

export function peerGone(machine: string, found: string, cause?: unknown): CudaIpcError {
  const message = `Cannot reach machine "${machine}": ${found}`;
  return new CudaIpcError("PEER_GONE", message, { cause });
}
