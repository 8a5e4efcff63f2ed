/** Makes the PTX of all operations as one module, and lists its kernels. */
import { arithmeticDTypes } from "../../../array/arithmetic.js";
import { checksumKernel } from "./checksum-kernel.js";
import { closeKernel } from "./close-kernels.js";
import { compareKernel, compareUnits } from "./compare-kernels.js";
import { elementKinds } from "./element-access.js";
import { moduleHead } from "./grid-loop.js";
import { affineKernel, fillKernel, iotaKernel } from "./map-kernels.js";
import { statisticsKernel } from "./statistics-kernels.js";

/** Makes the text of the module, about 110 KiB, on every call. */
export function kernelSource(): string {
  return [
    moduleHead,
    fillKernel,
    ...elementKinds.map(iotaKernel),
    ...elementKinds.map(affineKernel),
    ...compareUnits.map(compareKernel),
    ...arithmeticDTypes.map(closeKernel),
    checksumKernel,
    ...arithmeticDTypes.map(statisticsKernel),
  ].join("");
}

/** Lists the kernels in the text of a module. */
export function kernelNames(source: string): string[] {
  return [...source.matchAll(/^\.visible \.entry (\w+)\(/gm)].map((match) => match[1] as string);
}
