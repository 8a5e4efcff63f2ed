/** Writers and readers of channels as processes of their own. */
import { Actor } from "../../support/actor.js";

const WRITES = new URL("./actors/writes.js", import.meta.url);
const READS = new URL("./actors/reads.js", import.meta.url);

/** The report of a reader at its end. */
export interface ReadResult {
  readonly end: string;
  readonly first: number | null;
  readonly next: number | null;
  readonly received: number;
  readonly missed: number;
  readonly wrong: number;
}

export async function startWriter(
  socket: string,
  options: object = {},
  how = "create",
  within: readonly string[] = [],
): Promise<Actor> {
  const args = [socket, "channel", how, JSON.stringify(options)];
  const actor = new Actor(WRITES, { args, within });
  await actor.says();
  return actor;
}

export async function startReader(
  socket: string,
  options: object = {},
  within: readonly string[] = [],
): Promise<Actor> {
  const actor = new Actor(READS, { args: [socket, "channel", JSON.stringify(options)], within });
  await actor.says();
  return actor;
}

export async function tell(actor: Actor, command: string): Promise<unknown> {
  actor.goOn(command);
  return actor.says();
}

export async function resultOf(reader: Actor): Promise<ReadResult> {
  return (await reader.says()) as ReadResult;
}

export async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}
