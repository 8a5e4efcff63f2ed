/**
 * Chooses the architecture to compile for: the requested one; else the device's own, or the nearest
 * older one that the compiler knows; without a device, the oldest that it knows.
 */
import { CudaIpcError } from "../../base/errors.js";

export interface KnownArchitectures {
  readonly version: string;
  /** In ascending order; 75 stands for 7.5. */
  readonly architectures: readonly number[];
}

export interface WantedArchitecture {
  readonly arch: string | undefined;
  /** For example `9.0`. */
  readonly computeCapability: string | undefined;
  readonly deviceName: string | undefined;
}

/**
 * Returns `sm_90` for code of that architecture only, `compute_90` for PTX.
 * @throws TypeError, UNSUPPORTED
 */
export function chooseArchitecture(
  compiler: KnownArchitectures,
  wanted: WantedArchitecture,
): string {
  const { arch, computeCapability } = wanted;
  if (arch !== undefined) {
    if (typeof arch === "string" && /^(sm|compute)_\d{2,3}[af]?$/.test(arch)) return arch;
    throw new TypeError(
      `arch must be of the form sm_90 or compute_90, not ${JSON.stringify(arch)}`,
    );
  }
  const [oldest] = compiler.architectures;
  if (computeCapability === undefined) return `compute_${oldest}`;
  const [major, minor] = computeCapability.split(".");
  const own = Number(major) * 10 + Number(minor);
  if (compiler.architectures.includes(own)) return `sm_${own}`;
  const older = compiler.architectures.findLast((it) => it < own);
  if (older !== undefined) return `compute_${older}`;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot compile for ${wanted.deviceName ?? "the device"}: it has compute capability ` +
      `${computeCapability}, and NVRTC ${compiler.version} makes code for ` +
      `${formatCapability(oldest)} and newer; install an older one`,
  );
}

function formatCapability(architecture: number | undefined): string {
  return architecture === undefined
    ? "nothing"
    : `${Math.floor(architecture / 10)}.${architecture % 10}`;
}
