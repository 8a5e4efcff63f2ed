/** The kernels that compute each element on its own: fill, iota and affine. */
import type { ComputeType } from "../../../array/arithmetic.js";
import {
  accessRegisters,
  addressOfElement,
  type ElementKind,
  elementAccess,
} from "./element-access.js";
import { gridLoop } from "./grid-loop.js";

/**
 * to[i] = value, of 8 bytes. The driver's own memset has the other sizes.
 */
export const fillKernel = gridLoop({
  name: "fill_b64",
  parameters: [
    { name: "at_to", type: "u64" },
    { name: "count", type: "u64" },
    { name: "value", type: "u64" },
  ],
  registers: [".reg .u64 %address;"],
  body: `${addressOfElement("%at_to", 8)}
  st.global.u64 [%address], %value;`,
});

/** to[i] = i * step + start. */
export function iotaKernel(kind: ElementKind): string {
  const { elementBytes, computeType, store } = elementAccess[kind];
  return gridLoop({
    name: `iota_${kind}`,
    parameters: [
      { name: "at_to", type: "u64" },
      { name: "count", type: "u64" },
      { name: "start", type: computeType },
      { name: "step", type: computeType },
    ],
    registers: accessRegisters(kind),
    body: `  ${indexAs[computeType]} %x, %i;
  ${product[computeType]} %x, %x, %step;
  ${sum[computeType]} %x, %x, %start;
${addressOfElement("%at_to", elementBytes)}
${store}`,
  });
}

/** to[i] = a * from[i] + b. */
export function affineKernel(kind: ElementKind): string {
  const { elementBytes, computeType, load, store } = elementAccess[kind];
  return gridLoop({
    name: `affine_${kind}`,
    parameters: [
      { name: "at_to", type: "u64" },
      { name: "at_from", type: "u64" },
      { name: "count", type: "u64" },
      { name: "a", type: computeType },
      { name: "b", type: computeType },
    ],
    registers: accessRegisters(kind),
    body: `${addressOfElement("%at_from", elementBytes)}
${load}
  ${product[computeType]} %x, %x, %a;
  ${sum[computeType]} %x, %x, %b;
${addressOfElement("%at_to", elementBytes)}
${store}`,
  });
}

/** Converts the index to a value; an integer type keeps its low bits. */
const indexAs: Readonly<Record<ComputeType, string>> = {
  u32: "cvt.u32.u64",
  u64: "mov.u64",
  f32: "cvt.rn.f32.u64",
  f64: "cvt.rn.f64.u64",
};

// WHY an explicit .rn: without it the compiler may fuse both into a multiply-add, which rounds only
// once. Without .ftz subnormals are kept.
const product: Readonly<Record<ComputeType, string>> = {
  u32: "mul.lo.u32",
  u64: "mul.lo.u64",
  f32: "mul.rn.f32",
  f64: "mul.rn.f64",
};
const sum: Readonly<Record<ComputeType, string>> = {
  u32: "add.u32",
  u64: "add.u64",
  f32: "add.rn.f32",
  f64: "add.rn.f64",
};
