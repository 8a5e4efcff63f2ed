// Runs tasks that use a hub in Piscina's worker threads. Destroys the pool while the tasks hold
// something.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { argument, say } from "../../../support/actor-side.js";

interface Pool {
  run(task: unknown): Promise<unknown>;
  destroy(): Promise<void>;
}

// WHY not imported: its types need other compiler settings than this project's.
const require = createRequire(import.meta.url);
const { Piscina } = require("piscina") as { Piscina: new (options: object) => Pool };

const pool = new Piscina({
  filename: fileURLToPath(new URL("./pooled.js", import.meta.url)),
  minThreads: 4,
  maxThreads: 4,
});
const tasks = Array.from({ length: 16 }, (_, index) => pool.run({ socket: argument(0), index }));
say(await Promise.all(tasks));
await pool.destroy();
say("destroyed");
