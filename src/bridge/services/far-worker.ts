/**
 * A worker of another machine, for one client of this one. For the client, this bridge is the
 * worker: it has made an offer, and writes to it what the worker replies there. The requests are
 * lent to the other bridge. So each end of the link sees the death of the other as on one machine,
 * and the client decides what becomes of its requests.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { ChannelWriter } from "../../channel/channel-writer.js";
import { memorySlots } from "../../ring/channel-layout.js";
import { encodeEnvelope, withTimeLeft } from "../../service/envelope.js";
import { slotsOf } from "../../service/link-window.js";
import { factsMessage, parseFacts, type ServiceFacts } from "../../service/service-facts.js";
import { linkNameOf, requestName } from "../../service/service-names.js";
import { channelContradiction } from "../../wire/channel-content.js";
import type { CallResult } from "../../wire/link-messages.js";
import { MessageCarrier } from "../channels/message-carrier.js";
import { UnreadWatch } from "../channels/unread-watch.js";
import type { MachineLink } from "../link/machine-link.js";
import type { FetchParts } from "../transfer/fetch.js";

export interface WorkerWish {
  readonly service: string;
  /** Workers that the client has already. */
  readonly except: readonly string[];
}

type Claim = CallResult<"claim">;

export class FarWorker {
  readonly service: string;
  readonly machine: string;
  readonly worker: string;
  /** Of the offer, on both machines. */
  readonly name: string;
  /** Resolves with the reason when nothing is carried any more. */
  readonly ended: Promise<string>;
  readonly #parts: FetchParts;
  readonly #link: MachineLink;
  readonly #claim: Claim;
  readonly #writer: ChannelWriter;
  readonly #stop = new AbortController();
  readonly #deadline: Deadline;

  private constructor(
    parts: FetchParts,
    link: MachineLink,
    claim: Claim & { readonly worker: string; readonly service: string },
    writer: ChannelWriter,
  ) {
    const { signal } = this.#stop;
    this.service = claim.service;
    this.machine = link.machine;
    this.worker = claim.worker;
    this.name = claim.name;
    this.#parts = parts;
    this.#link = link;
    this.#claim = claim;
    this.#writer = writer;
    this.#deadline = new Deadline(`carry "${claim.name}"`, { signal }, Number.POSITIVE_INFINITY);
    this.ended = this.#run().catch(messageOf);
  }

  /**
   * Claims a worker there and offers it here.
   * @throws NOT_FOUND if none is free; PEER_GONE, INVALID_MESSAGE, PROTOCOL_MISMATCH; as
   * `createChannel`
   */
  static async claim(
    parts: FetchParts,
    { machine, instance }: { readonly machine: string; readonly instance: string },
    { service, except }: WorkerWish,
    deadline: Deadline,
  ): Promise<FarWorker> {
    const link = await parts.links.to(machine, instance, deadline);
    const claiming = link.call(
      { op: "claim", service, except: [...except] },
      // A worker that is claimed too late must still be given back.
      deadline.unlimited(),
    );
    const claim = await deadline.race(claiming, () => {
      claiming.then(
        (late) => leave(link, late),
        () => {},
      );
    });
    let writer: ChannelWriter | undefined;
    try {
      const { worker, facts } = checkClaim(machine, service, claim);
      writer = await createReplies(parts, machine, claim, deadline);
      await sayHello(writer, facts, claim);
      return new FarWorker(parts, link, { ...claim, service, worker }, writer);
    } catch (error) {
      writer?.abandon();
      leave(link, claim);
      throw error;
    }
  }

  abort(reason: CudaIpcError): void {
    this.#stop.abort(reason);
  }

  /** Until the worker ends its side, the client does, or the link ends. */
  async #run(): Promise<string> {
    const attached = this.#attach();
    try {
      const carried = this.#carryReplies();
      carried.catch(() => {});
      // The worker may end, or the link, before a client has come.
      await Promise.race([attached, carried]);
      // WHY: a machine may never end the replies, although it was told that the client is gone.
      using _unread = new UnreadWatch(this.#writer, () => this.#endUnread());
      if (await carried) return "its worker is gone";
      this.#writer.end();
      return "the link was closed";
    } finally {
      this.abort(new CudaIpcError("ABORTED", `Cannot carry "${this.name}": it has ended`));
      // The client learns that its requests may have been begun. Nothing after `end`.
      this.#writer.abandon();
      leave(this.#link, this.#claim);
      const requests = await attached.catch(() => undefined);
      if (requests !== undefined) this.#link.server.takeBack(requests);
    }
  }

  #endUnread(): void {
    const message = `Cannot carry "${this.name}": its client is gone`;
    this.abort(new CudaIpcError("ABORTED", message));
  }

  /** Lends the requests of the client that claims the offer. @throws TIMEOUT if none comes */
  async #attach(): Promise<number> {
    const { signal } = this.#stop;
    const reader = await this.#parts.hub.openChannel(requestName(this.name), {
      from: "oldest",
      spinMs: 0,
      timeoutMs: defaults.serviceClaimTimeoutMs,
      signal,
    });
    const lent = { reader, metaOf: withTimeLeft, close: () => reader.close() };
    const requests = this.#link.server.lend(lent);
    try {
      const { channel } = this.#claim;
      await this.#link.call({ op: "attach", channel, requests }, this.#deadline);
      return requests;
    } catch (error) {
      this.#link.server.takeBack(requests);
      throw error;
    }
  }

  #carryReplies(): Promise<boolean> {
    const { channel, content } = this.#claim;
    const { slotBytes, metaBytesMax } = content;
    const carrier = new MessageCarrier(
      { name: this.name, link: this.#link, channel, slotBytes, metaBytesMax },
      { deadline: this.#deadline, keepsNumbers: false, onProgress: () => {} },
    );
    return carrier.carry(this.#writer);
  }
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH */
function checkClaim(
  machine: string,
  service: string,
  { name, content, hello }: Claim,
): { readonly worker: string; readonly facts: ServiceFacts } {
  const link = linkNameOf(name);
  const facts = parseFacts(name, hello);
  const { slots, readersMax, slotStride } = content;
  const refuse = (found: string) =>
    new CudaIpcError(
      "INVALID_MESSAGE",
      `Cannot use a worker of service "${service}" on machine "${machine}": it claims ${found}`,
    );
  if (link?.service !== service || link.isRequests) throw refuse(`replies in "${name}"`);
  const contradiction = channelContradiction(content, memorySlots(content) * slotStride);
  if (contradiction !== undefined) throw refuse(contradiction);
  if (slots !== slotsOf(facts.depth) || readersMax !== 1)
    throw refuse(`${slots} slots and ${readersMax} readers at a depth of ${facts.depth}`);
  return { worker: link.worker, facts };
}

function createReplies(
  { hub, device }: FetchParts,
  machine: string,
  { name, object, content }: Claim,
  deadline: Deadline,
): Promise<ChannelWriter> {
  const { dtype, shape, slots, readersMax, metaBytesMax } = content;
  return hub.createCarriedChannel(name, hub.device(device), {
    ...{ dtype, shape, slots, readersMax, metaBytesMax },
    replicaOf: { machine, object },
    firstSequence: 0,
    ...deadline.rest(),
  });
}

async function sayHello(writer: ChannelWriter, facts: ServiceFacts, claim: Claim): Promise<void> {
  const { name, content } = claim;
  const message = factsMessage(facts);
  const meta = encodeEnvelope(name, { kind: "hello", number: 0 }, message, content.metaBytesMax);
  using slot = await writer.loan();
  slot.commit({ meta, byteLength: 0 });
}

/** Lets the other machine give its worker back. */
function leave(link: MachineLink, { channel }: Claim): void {
  if (!link.open) return;
  const deadline = new Deadline("give a worker back", {}, defaults.linkTimeoutMs);
  // It may have ended there. The end of the link gives it back, too.
  link.call({ op: "leave", channel }, deadline).catch(() => {});
}
