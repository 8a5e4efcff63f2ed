/** The files of docs/protocol/vectors. */
import { descriptorVectors } from "./descriptor-vectors.js";
import { hostileVectors } from "./hostile-vectors.js";
import { lineVectors } from "./line-vectors.js";
import { messageVectors } from "./message-vectors.js";
import { ringVectors } from "./ring-vectors.js";
import { sessionVectors } from "./session-vectors.js";
import { socketPathVectors } from "./socket-path-vectors.js";

/** Their paths and texts. */
export async function vectorFiles(): Promise<ReadonlyMap<string, string>> {
  const files = {
    descriptors: descriptorVectors(),
    hostile: hostileVectors(),
    lines: lineVectors(),
    messages: messageVectors(),
    ring: ringVectors(),
    session: await sessionVectors(),
    "socket-paths": socketPathVectors(),
  };
  return new Map(
    Object.entries(files).map(([name, vectors]) => [
      `docs/protocol/vectors/${name}.json`,
      `${JSON.stringify(vectors, undefined, 2)}\n`,
    ]),
  );
}
