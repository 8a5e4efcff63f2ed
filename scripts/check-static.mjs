// All checks but the tests: format, lint, types, dead code, the package and its public names.
// `--built` uses the dist/ that is there, as after `npm install`.
// Steps that do not need each other run at the same time. Each prints when it ends.
import { spawn } from "node:child_process";

const isBuilt = process.argv.includes("--built");

/** Runs an npm script. @returns whether it succeeded */
function run(script) {
  return new Promise((resolve) => {
    const child = spawn("npm", ["run", "--silent", script], { stdio: ["ignore", "pipe", "pipe"] });
    const output = [];
    child.stdout.on("data", (bytes) => output.push(bytes));
    child.stderr.on("data", (bytes) => output.push(bytes));
    child.once("error", (error) => output.push(Buffer.from(String(error))));
    child.once("close", (code) => {
      process.stdout.write(`${code === 0 ? "passed" : "FAILED"}: npm run ${script}\n`);
      process.stdout.write(Buffer.concat(output));
      resolve(code === 0);
    });
  });
}

/** Runs scripts one after the other, until one fails. */
async function inTurn(...scripts) {
  for (const script of scripts) if (!(await run(script))) return false;
  return true;
}

// Two at a time, for two cores. The first needs longest for types, the second for the package.
const results = await Promise.all([
  inTurn("typecheck", "lint", "deadcode"),
  inTurn(...(isBuilt ? [] : ["build"]), "docs:gpu:check", "api:check", "pack:lint"),
]);
process.exitCode = results.every(Boolean) ? 0 : 1;
