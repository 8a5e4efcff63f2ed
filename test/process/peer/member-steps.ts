/** The messages in which an actor reports its steps as a member of a group. */
import type { Actor } from "../../support/actor.js";

export interface Said {
  readonly step?: string;
  readonly begins?: string;
  readonly code?: string;
  readonly message?: string;
  readonly value?: unknown;
}

/** The result of the next step with this name. */
export async function outcome(actor: Actor, step: string): Promise<Said> {
  for (;;) {
    const said = (await actor.says()) as Said;
    if (said.step === step) return said;
  }
}
