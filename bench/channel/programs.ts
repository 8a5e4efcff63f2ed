/** Starts the actors and C programs of the channel benchmarks. */
import { fileURLToPath } from "node:url";
import type { CPrograms } from "../c-programs.js";
import type { HubProcess } from "../hub/hub-process.js";
import type { Program } from "../processes.js";
import type { Contender } from "./in-turns.js";

export interface ActorOptions {
  readonly device: string;
  readonly iterations: number;
  /** Arguments after those that all actors have. */
  readonly extra?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs an actor of bench/actors in each role. */
export function actors(name: string, roles: readonly string[], options: ActorOptions): Program[] {
  const { device, iterations, extra = [], env = {} } = options;
  const path = fileURLToPath(new URL(`../actors/${name}.js`, import.meta.url));
  return roles.map((role) => ({
    command: process.execPath,
    args: [path, device, String(iterations), role, ...extra],
    env,
  }));
}

/** Two actors with a channel between them. */
export function throughChannel(name: string, hub: HubProcess, options: ActorOptions): Contender {
  const extra = [hub.socket, ...(options.extra ?? [])];
  return { name, programs: actors(name, ["first", "second"], { ...options, extra }) };
}

/** The C program of that name. */
export function inC(
  name: string,
  c: CPrograms,
  { iterations, env = {}, extra = [] }: Omit<ActorOptions, "device">,
): Contender {
  const program = c.program(name, iterations, extra);
  return { name, programs: typeof program === "string" ? program : [{ ...program, env }] };
}
