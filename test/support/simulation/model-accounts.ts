/** What the model counts for each user and for the whole hub. */
import type { HubPolicy } from "../../../src/hub/limits/policy.js";
import type { ModelObject, ModelWait } from "./model-state.js";
import { type Refusal, Tally, type Uses } from "./tally.js";

export class ModelAccounts {
  readonly policy: HubPolicy;
  readonly users = new Map<number, Tally>();
  readonly hub: Tally;
  fdCount = 0;
  withMemory = 0;

  constructor(policy: HubPolicy) {
    this.policy = policy;
    this.hub = new Tally("limits.hub", policy.limits.hub);
  }

  user(uid: number): Tally {
    let tally = this.users.get(uid);
    if (tally === undefined) {
      const own = this.policy.userLimits.get(uid);
      tally =
        own === undefined
          ? new Tally("limits.user", this.policy.limits.user)
          : new Tally(`userLimits.${uid}`, own);
      this.users.set(uid, tally);
    }
    return tally;
  }

  /** Why this is over a limit. The smallest account answers first. */
  refusal(own: Tally | undefined, uid: number, uses: Uses): Refusal | undefined {
    return own?.refusal(uses) ?? this.user(uid).refusal(uses) ?? this.hub.refusal(uses);
  }

  protected countMemory({ memory }: ModelObject, sign: 1 | -1): void {
    if (memory === undefined) return;
    this.fdCount += sign * memory.length;
    this.withMemory += sign;
  }

  protected countWait({ session }: ModelWait, sign: 1 | -1): void {
    session.tally.add({ waitingOpens: 1 }, sign);
    this.count(session.peer.uid, { waitingOpens: 1 }, sign);
  }

  protected count(uid: number, uses: Uses, sign: 1 | -1 = 1): void {
    this.user(uid).add(uses, sign);
    this.hub.add(uses, sign);
  }
}
