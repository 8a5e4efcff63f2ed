/** Runs inside an actor: a process of a demo that plays one part and reports its steps. */
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { connect } from "../../client/connect.js";
import type { Hub } from "../../client/hub.js";
import type { ActorPart, FromActor, ToActor } from "./actor-messages.js";

export interface Actor {
  readonly hub: Hub;
  readonly elements: number;
  say(text: string): void;
  reached(point: string): void;
  /** Resolves when the demo has sent this word. */
  told(word: string): Promise<void>;
}

const voice = {
  say: (text: string) => send({ kind: "say", text }),
  reached: (point: string) => send({ kind: "reached", point }),
};

/** Connects to the hub and runs a part. Reports a failure to the demo. */
export async function play(part: (actor: Actor) => Promise<void>): Promise<void> {
  await run(async ({ socket, device, elements }, told) => {
    await using hub = await connect({ socket, device, start: false });
    // The first use of a GPU is slow. Do it here, so that it does not count as opening the array.
    hub.device().memoryInfo();
    await part({ ...voice, hub, elements, told });
  });
}

async function run(
  part: (given: ActorPart, told: (word: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const told = listen();
  try {
    await part(JSON.parse(process.argv[2] ?? "{}") as ActorPart, told);
  } catch (error) {
    const code = error instanceof CudaIpcError ? error.code : "INTERNAL";
    send({ kind: "failed", code, message: messageOf(error) });
    process.exitCode = 1;
  }
  process.disconnect();
}

function send(message: FromActor): void {
  process.send?.(message);
}

function listen(): (word: string) => Promise<void> {
  const heard = new Set<string>();
  const waiting = new Map<string, () => void>();
  process.on("message", ({ go }: ToActor) => {
    heard.add(go);
    waiting.get(go)?.();
  });
  // Ctrl-C reaches all processes of a terminal. The demo ends its actors itself.
  process.on("SIGINT", () => {});
  process.on("disconnect", () => process.exit());
  return (word) =>
    heard.has(word) ? Promise.resolve() : new Promise((resolve) => waiting.set(word, resolve));
}
