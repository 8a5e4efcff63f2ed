// Names of demos, as the command line lists them, so that nothing here can forget one.
import { execFileSync } from "node:child_process";

/**
 * All demos.
 * @param launcher the compiled command line, such as dist/cli/launch.cjs
 */
export function demoNames(launcher) {
  const [, list = ""] = /^Demos:\n((?: {2}\S.*\n)+)/m.exec(helpOf(launcher)) ?? [];
  return found([...list.matchAll(/^ {2}(\S+)/gm)], launcher);
}

/** Those with a producer and a consumer that run in two terminals. */
export function pairNames(launcher) {
  const [, also = ""] = /^ {2}also (.+)$/m.exec(helpOf(launcher)) ?? [];
  return [...found([...also.matchAll(/([\w-]+)/g)], launcher), "ring"];
}

const helpOf = (launcher) =>
  execFileSync(process.execPath, [launcher, "demo", "--help"], { encoding: "utf8" });

function found(matches, launcher) {
  if (matches.length === 0) throw new Error(`${launcher} demo --help lists no demos`);
  return matches.map(([, name]) => name);
}
