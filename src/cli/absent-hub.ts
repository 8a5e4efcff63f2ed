/** Why no hub answers at a socket, found without asking it. */
import { statSync } from "node:fs";
import { hubSocketPath } from "../client/connect.js";

export interface AbsentHub {
  /** Follows "nothing is shared: ". */
  readonly words: string;
  /** Whether one could be started there. */
  readonly startable: boolean;
}

/** Only where connecting has just failed: it tells a socket of the dead from one of the living. */
export function describeAbsentHub(socket: string | undefined): AbsentHub {
  const path = hubSocketPath(socket);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return { words: `no hub runs at ${path}`, startable: true };
  if (!found.isSocket()) return { words: `${path} is there, but it is not a socket`, startable: false };
  return {
    words: `a hub ended at ${path} without cleaning up; the next one brings back what processes still hold`,
    startable: true,
  };
}

/** As a sentence, for commands about the hub itself. */
export function absentHubSentence({ words }: AbsentHub): string {
  return words.startsWith("no hub runs") ? `N${words.slice(1)}.` : `No hub runs: ${words}.`;
}
