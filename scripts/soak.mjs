// Compiles and runs the soak: `npm run soak -- --minutes 60 --seed 1 --out report.json`. Exits 1 where anything is off.
import { spawn } from "node:child_process";
import { compile } from "./compile.mjs";

await compile();
const soak = spawn(process.execPath, ["build/bench/soak/main.js", ...process.argv.slice(2)], { stdio: "inherit" });
// WHY: the terminal sends its signals to both, and the soak still has its report to write.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
soak.once("exit", (code) => process.exit(code ?? 1));
