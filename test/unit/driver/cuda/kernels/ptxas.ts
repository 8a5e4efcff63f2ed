/** Finds ptxas, NVIDIA's assembler of PTX, which needs no GPU. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of ptxas, or the reason why there is none. */
export function findPtxas(): { readonly path: string } | string {
  const { PTXAS, CUDA_HOME, PATH } = process.env;
  if (PTXAS) return existsSync(PTXAS) ? { path: PTXAS } : `no ${PTXAS} (PTXAS)`;
  const folders = (PATH ?? "").split(delimiter);
  folders.push("/usr/local/cuda/bin");
  if (CUDA_HOME) folders.unshift(join(CUDA_HOME, "bin"));
  const folder = folders.find((it) => existsSync(join(it, "ptxas")));
  return folder === undefined
    ? "no ptxas in PATH or CUDA_HOME; set PTXAS"
    : { path: join(folder, "ptxas") };
}

/** Assembles a module for a GPU architecture, and returns the messages; none if it is right. */
export function assemble(
  path: string,
  source: string,
  architecture: string,
): { status: number | null; words: string } {
  const options = ["-arch", architecture, "--warn-on-spills", "-Werror", "-o", "/dev/null", "-"];
  const { status, stdout, stderr } = spawnSync(path, options, { input: source, encoding: "utf8" });
  return { status, words: `${stdout}${stderr}`.trim() };
}

/** Filters the GPU architectures that this assembler knows. */
export function knownArchitectures(path: string, wanted: readonly string[]): string[] {
  const { stdout } = spawnSync(path, ["--help"], { encoding: "utf8" });
  return wanted.filter((it) => new RegExp(`'${it}'`).test(stdout));
}
