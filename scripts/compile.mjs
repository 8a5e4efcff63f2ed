// Compiles src, test, bench and examples to build/, where tests, benchmarks and the GPU bundle run them.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** Ends the process where the compiler finds fault. */
export function compile() {
  const tsc = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.json"], {
    stdio: "inherit",
  });
  if (tsc.status !== 0) process.exit(tsc.status ?? 1);
  // WHY: an example imports the package by its name, which is dist/; what is tested is what was compiled just now.
  for (const file of readdirSync("build/examples", { recursive: true }).filter((name) => name.endsWith(".js"))) {
    const path = join("build/examples", file);
    const door = relative(dirname(path), "build/src/index.js");
    writeFileSync(path, readFileSync(path, "utf8").replaceAll('"cuda-ipc"', JSON.stringify(door)));
  }
}
