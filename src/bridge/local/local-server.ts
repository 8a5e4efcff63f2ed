/**
 * Serves the processes of this machine: pulls of names, workers of other machines, and the status
 * of the bridge.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { SocketClaim } from "../../os/socket-file.js";
import { type PeerClient, PeerListener } from "../../peer/peer-listener.js";
import {
  type BridgeRequest,
  type BridgeStatus,
  bridgeRequestSchema,
} from "../../wire/bridge-messages.js";
import { decodePeerMessage } from "../../wire/codec.js";
import type { FarWorkers } from "../services/far-workers.js";
import type { FetchTable } from "../transfer/fetch-table.js";
import { PullSession } from "./pull-session.js";

export interface LocalAnswers {
  readonly fetches: FetchTable;
  readonly workers: FarWorkers;
  status(after: string | undefined): BridgeStatus;
}

/** The right to be the bridge of a hub. The kernel gives it up with the process. */
export class BridgeClaim {
  readonly path: string;
  readonly #claim: SocketClaim;

  private constructor(path: string, claim: SocketClaim) {
    this.path = path;
    this.#claim = claim;
  }

  /** @throws BRIDGE_RUNNING if another process has it */
  static make(path: string): BridgeClaim {
    const claim = SocketClaim.tryMake(path);
    if (claim !== undefined) return new BridgeClaim(path, claim);
    const message = `Cannot serve this hub: another bridge listens at ${path}`;
    // WHY not the usual one: another name of the machine does not help.
    const remedy = "Use that one, or end it. A hub has one bridge.";
    throw new CudaIpcError("BRIDGE_RUNNING", message, { remedy });
  }

  release(): void {
    this.#claim.release();
  }
}

export class LocalServer {
  readonly #listener: PeerListener;
  readonly #answers: LocalAnswers;
  /** What each process waits for. */
  readonly #pulls = new Map<PeerClient, PullSession>();
  readonly #wishes = new Map<PeerClient, AbortController>();

  /** The caller keeps the claim, and releases it after this. */
  constructor({ path }: BridgeClaim, answers: LocalAnswers) {
    this.#answers = answers;
    this.#listener = acquireIn(() =>
      PeerListener.listen(path, {
        referenced: true,
        onRequest: (client, bytes) => this.#onRequest(client, bytes),
        onEnd: (client) => this.#onEnd(client),
      }),
    );
  }

  close(): void {
    const reason = new CudaIpcError("BRIDGE_UNAVAILABLE", "Cannot wait: the bridge is ending");
    releaseAll([
      () => {
        for (const pull of this.#pulls.values()) pull.end();
        for (const wish of this.#wishes.values()) wish.abort(reason);
      },
      () => this.#listener.close(reason),
    ]);
  }

  #onRequest(client: PeerClient, bytes: Uint8Array): void {
    const request: BridgeRequest = decodePeerMessage("a request", bridgeRequestSchema, bytes);
    const pull = this.#pulls.get(client);
    if (request.op === "status") client.send(this.#answers.status(request.after));
    else if (request.op === "worker") this.#offer(client, request);
    else if (request.op === "pull") {
      if (pull !== undefined) throw misplaced("pull", "another pull is under way");
      this.#pulls.set(client, new PullSession(client, this.#answers.fetches, request));
    } else if (pull === undefined) throw misplaced("next", "no pull is under way");
    else pull.next();
  }

  /** Offers a worker of another machine, and says where. */
  #offer(client: PeerClient, { service, except }: BridgeRequest & { readonly op: "worker" }): void {
    if (this.#wishes.has(client)) throw misplaced("worker", "another one is looked for");
    const wish = new AbortController();
    this.#wishes.set(client, wish);
    const limit = { signal: wish.signal };
    const deadline = new Deadline(`use service "${service}"`, limit, defaults.requestTimeoutMs);
    this.#answers.workers
      .offer({ service, except }, deadline)
      .then(({ name, worker, machine }) => client.send({ v: 1, ok: true, name, worker, machine }))
      // Also if it does not read.
      .catch((error) => (wish.signal.aborted ? undefined : client.refuse(error)))
      .finally(() => this.#wishes.delete(client));
  }

  #onEnd(client: PeerClient): void {
    this.#wishes
      .get(client)
      ?.abort(new CudaIpcError("ABORTED", "Cannot offer: the process waits no longer"));
    this.#pulls.get(client)?.end();
    this.#pulls.delete(client);
  }
}

function misplaced(op: string, found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot answer "${op}": ${found}`);
}
