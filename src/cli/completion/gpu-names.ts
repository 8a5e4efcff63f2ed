/** The names of the GPUs, found without the driver: to load CUDA takes too long for completion. */
import { readdirSync } from "node:fs";

/** `cuda:0` and so on. CUDA counts only the GPUs of CUDA_VISIBLE_DEVICES, if that is set. */
export function gpuNames(env: NodeJS.ProcessEnv = process.env, folder = "/dev"): string[] {
  const files = readdirSync(folder).filter((name) => /^nvidia\d+$/.test(name));
  const visible = env.CUDA_VISIBLE_DEVICES?.split(",").filter((id) => id.trim() !== "");
  const count = Math.min(files.length, visible?.length ?? files.length);
  return Array.from({ length: count }, (_, ordinal) => `cuda:${ordinal}`);
}
