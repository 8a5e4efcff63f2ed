/** The environment of the hub, its gate and its keeper. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The environment of this process without its options for Node: a debugger's port and preloaded
 * modules are not for the hub. What loads packages under Yarn Plug'n'Play stays.
 */
export function childEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _, ...env } = process.env;
  const loader = process.versions.pnp === undefined ? undefined : plugAndPlayOptions();
  return loader === undefined ? env : { ...env, NODE_OPTIONS: loader };
}

/** WHY from `pnpapi`: NODE_OPTIONS may lack it, as in `node -r ./.pnp.cjs`. */
function plugAndPlayOptions(): string | undefined {
  let file: string;
  try {
    file = createRequire(import.meta.url).resolve("pnpapi");
  } catch {
    return undefined;
  }
  const loader = join(dirname(file), ".pnp.loader.mjs");
  const forImports = existsSync(loader)
    ? ["--experimental-loader", quoted(pathToFileURL(loader).href)]
    : [];
  return ["--require", quoted(file), ...forImports].join(" ");
}

/** As Node reads it in NODE_OPTIONS. */
function quoted(word: string): string {
  return `"${word.replace(/["\\]/g, "\\$&")}"`;
}
