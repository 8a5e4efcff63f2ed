// The names of all demos, as the command line lists them, so that nothing here can forget one.
import { execFileSync } from "node:child_process";

/** @param launcher the compiled command line, such as dist/cli/launch.cjs */
export function demoNames(launcher) {
  const help = execFileSync(process.execPath, [launcher, "demo", "--help"], { encoding: "utf8" });
  const [, list = ""] = /^Demos:\n((?: {2}\S.*\n)+)/m.exec(help) ?? [];
  const names = [...list.matchAll(/^ {2}(\S+)/gm)].map(([, name]) => name);
  if (names.length === 0) throw new Error(`${launcher} demo --help lists no demos`);
  return names;
}
