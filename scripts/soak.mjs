// Compiles and runs the soak: `npm run soak -- --minutes 60 --seed 1 --out report.json`. Exits with
// 1 if it finds a fault.
import { spawn } from "node:child_process";
import { compile } from "./compile.mjs";

await compile();
const soak = spawn(process.execPath, ["build/bench/soak/main.js", ...process.argv.slice(2)], {
  stdio: "inherit",
});
// WHY: a terminal signals both processes, and the soak must still write its report.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
soak.once("exit", (code) => process.exit(code ?? 1));
