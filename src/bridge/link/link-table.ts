/**
 * The links of a bridge: one to each machine that it fetches from, and those that others asked for.
 * Both sides agree over NATS, which hands out the addresses and secrets.
 */
import { randomBytes } from "node:crypto";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode, messageOf } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { refusedBy } from "../../peer/peer-link.js";
import type { UcxContext } from "../../ucx/ucx-context.js";
import { UcxWorker } from "../../ucx/ucx-worker.js";
import {
  decodeLinkMessage,
  encodeLinkMessage,
  type LinkReply,
  type LinkRequest,
  linkReplySchema,
  linkRequestSchema,
} from "../../wire/link-messages.js";
import { MACHINES_VERSION } from "../../wire/machines-version.js";
import type { NameStore } from "../names/name-store.js";
import { FrameSeal, type LinkSide } from "./frame-seal.js";
import type { LinkServer } from "./link-server.js";
import { MachineLink } from "./machine-link.js";
import { peerGone } from "./peer-gone.js";

export interface LinkTableParts {
  readonly machine: string;
  readonly instance: string;
  readonly context: UcxContext;
  readonly store: NameStore;
  readonly log: (line: string) => void;
  /** Returns an object that answers the calls of the other side, until the link ends. */
  serve(link: () => MachineLink): LinkServer;
}

type Meeting = Omit<LinkRequest, "op">;

export class LinkTable {
  readonly #parts: LinkTableParts;
  readonly #outgoing = new Map<string, Promise<MachineLink>>();
  readonly #incoming = new Set<MachineLink>();
  /** Each closes what a link that is being made has opened. */
  readonly #beginnings = new Set<() => void>();
  #open = true;

  constructor(parts: LinkTableParts) {
    this.#parts = parts;
    parts.store.serve(`link.${parts.instance}`, (bytes) => this.#accept(bytes));
  }

  /**
   * The link to a bridge. Many callers share one.
   * @throws PEER_GONE if it does not answer, UNSUPPORTED if no transport of UCX reaches it,
   * PROTOCOL_MISMATCH, NATS_UNAVAILABLE, ABORTED, CLOSED
   */
  async to(machine: string, instance: string, deadline: Deadline): Promise<MachineLink> {
    const found = this.#outgoing.get(instance) ?? this.#begin(machine, instance);
    // A waiter that gives up leaves the link to the others.
    return deadline.race(found, () => {});
  }

  /** The caller closes the context afterwards, and then no worker of it may be left. */
  close(): void {
    this.#open = false;
    for (const close of this.#beginnings) close();
    for (const link of this.#incoming) link.close();
    for (const asked of this.#outgoing.values()) {
      asked.then(
        (link) => link.close(),
        () => {},
      );
    }
  }

  /** WHY not forgotten in `#ask`: it may fail before it is here. */
  #begin(machine: string, instance: string): Promise<MachineLink> {
    const asked = this.#ask(machine, instance);
    this.#outgoing.set(instance, asked);
    asked.catch(() => this.#outgoing.delete(instance));
    return asked;
  }

  async #ask(machine: string, instance: string): Promise<MachineLink> {
    const { context, store } = this.#parts;
    const deadline = new Deadline(
      `link with machine "${machine}"`,
      { timeoutMs: defaults.linkTimeoutMs },
      defaults.linkTimeoutMs,
    );
    let worker: UcxWorker | undefined;
    let link: MachineLink | undefined;
    const close = () => {
      link?.close();
      worker?.close();
    };
    this.#beginnings.add(close);
    try {
      this.#checkOpen();
      worker = UcxWorker.create(context);
      const meeting = this.#meeting(worker);
      const request = encodeLinkMessage({ ...meeting, op: "link" });
      const bytes = await store.ask(`link.${instance}`, request, deadline);
      const reply = decodeLinkMessage(`the answer of "${machine}"`, linkReplySchema, bytes);
      if (!reply.ok) throw refusedBy(reply);
      link = this.#join(worker, reply, [meeting.secret, reply.secret], "asked");
      await link.call({ op: "hello" }, deadline);
      const made = link;
      made.onEnd(() => this.#outgoing.delete(instance));
      return made;
    } catch (error) {
      close();
      throw this.#explained(machine, error, link !== undefined);
    } finally {
      this.#beginnings.delete(close);
    }
  }

  /** Answers another bridge that asks for a link. */
  async #accept(bytes: Uint8Array): Promise<Uint8Array> {
    let asked = "another machine";
    try {
      const request = decodeLinkMessage("a request for a link", linkRequestSchema, bytes);
      asked = `"${request.machine}"`;
      return encodeLinkMessage(this.#answer(request));
    } catch (error) {
      const code = error instanceof CudaIpcError ? error.code : "SYSTEM_ERROR";
      this.#parts.log(`no link with ${asked}: ${messageOf(error)}`);
      const message = messageOf(error).slice(0, 1024);
      return encodeLinkMessage({ v: MACHINES_VERSION, ok: false, error: { code, message } });
    }
  }

  #answer(request: LinkRequest): LinkReply {
    this.#checkOpen();
    if (this.#incoming.size >= limits.machineLinksMax) {
      const found = `${this.#incoming.size} are open, the limit (machineLinksMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot accept another link: ${found}`);
    }
    return acquireIn((scope) => {
      const worker = scope.own(UcxWorker.create(this.#parts.context), (it) => it.close());
      const meeting = this.#meeting(worker);
      const link = this.#join(worker, request, [request.secret, meeting.secret], "answered");
      this.#incoming.add(link);
      link.onEnd(() => this.#incoming.delete(link));
      return { ...meeting, ok: true };
    });
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot link: the bridge is ending");
  }

  /** What this side brings to a link. */
  #meeting(worker: UcxWorker): Meeting {
    const { machine, instance, context } = this.#parts;
    return {
      v: MACHINES_VERSION,
      machine,
      instance,
      ucx: context.version,
      address: Buffer.from(worker.address).toString("base64"),
      secret: randomBytes(32).toString("base64"),
    };
  }

  #join(
    worker: UcxWorker,
    other: Meeting,
    secrets: readonly [string, string],
    side: LinkSide,
  ): MachineLink {
    const [first, second] = secrets.map((it) => Buffer.from(it, "base64"));
    let link: MachineLink | undefined;
    worker.connect(Buffer.from(other.address, "base64"), (failure) => link?.fail(failure));
    const server = this.#parts.serve(() => {
      if (link === undefined) throw new TypeError("a call before the link is there");
      return link;
    });
    // Last, because the link closes it.
    const seal = new FrameSeal([first ?? Buffer.of(), second ?? Buffer.of()], side);
    link = new MachineLink(other.machine, worker, seal, server);
    return link;
  }

  /** Says which engine did not get through. */
  #explained(machine: string, error: unknown, hasMet: boolean): unknown {
    // The context may be closed, too, and has no transports then.
    if (!this.#open) return error;
    const { context } = this.#parts;
    const ucx = `UCX ${context.version} (${context.transports().join(", ")})`;
    if (hasCode(error, "UNSUPPORTED")) return unreachable(machine, ucx, error);
    if (!hasCode(error, "TIMEOUT")) return error;
    const found = hasMet
      ? `it answers over NATS, but not over ${ucx}`
      : "it does not answer over NATS";
    return peerGone(machine, found, error);
  }
}

function unreachable(machine: string, ucx: string, cause: unknown): CudaIpcError {
  const found = `it has no transport in common with ${ucx}`;
  return new CudaIpcError("UNSUPPORTED", `Cannot reach machine "${machine}": ${found}`, {
    cause,
    remedy:
      "Compare the transports in `cuda-ipc bridge status` of both machines, and check UCX_TLS " +
      "and --interface of both bridges.",
  });
}
