/**
 * A module for a real and a fake driver: PTX for a GPU, and in its comments orders for the libcuda
 * in C (see libcuda-in-c/modules.c). Drivers from 525 on load PTX 7.0 for sm_52 on every GPU that
 * they know.
 */

const ADD = `.visible .entry add(.param .u64 to, .param .u32 count, .param .u32 value)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [value];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  add.u32 %r7, %r7, %r2;
  st.global.u32 [%rd3], %r7;
DONE:
  ret;
}`;

const STORE = `.visible .entry store(
  .param .u64 to, .param .u8 a, .param .u16 b, .param .f32 c, .param .f64 d, .param .u64 e, .param .align 4 .b8 f[12])
{
  .reg .b16 %rs<2>;
  .reg .f32 %f;
  .reg .f64 %fd;
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [to];
  cvta.to.global.u64 %rd0, %rd0;
  ld.param.u8 %rs0, [a];
  st.global.u8 [%rd0+16], %rs0;
  ld.param.u16 %rs1, [b];
  st.global.u16 [%rd0+32], %rs1;
  ld.param.f32 %f, [c];
  st.global.f32 [%rd0+48], %f;
  ld.param.f64 %fd, [d];
  st.global.f64 [%rd0+64], %fd;
  ld.param.u64 %rd1, [e];
  st.global.u64 [%rd0+80], %rd1;
  ld.param.u32 %r0, [f];
  st.global.u32 [%rd0+96], %r0;
  ld.param.u32 %r1, [f+4];
  st.global.u32 [%rd0+100], %r1;
  ld.param.u32 %r2, [f+8];
  st.global.u32 [%rd0+104], %r2;
  ret;
}`;

const SHAPE = `.visible .entry shape(.param .u64 to)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  cvta.to.global.u64 %rd, %rd;
  mov.u32 %r, %nctaid.x;
  st.global.u32 [%rd], %r;
  mov.u32 %r, %nctaid.y;
  st.global.u32 [%rd+4], %r;
  mov.u32 %r, %nctaid.z;
  st.global.u32 [%rd+8], %r;
  mov.u32 %r, %ntid.x;
  st.global.u32 [%rd+12], %r;
  mov.u32 %r, %ntid.y;
  st.global.u32 [%rd+16], %r;
  mov.u32 %r, %ntid.z;
  st.global.u32 [%rd+20], %r;
  mov.u32 %r, %dynamic_smem_size;
  st.global.u32 [%rd+24], %r;
  ret;
}`;

const HEAD = `.version 7.0
.target sm_52
.address_size 64
`;

export const kernelImage = `// module
// kernel add 8 4 4
// kernel store 8 1 2 4 8 8 12
// kernel shape 8
${HEAD}
${ADD}
${STORE}
${SHAPE}
`;

/** Fails to load with a log that names line 7. */
export const brokenImage = `// module
// error syntax error
${HEAD}
.visible .entry broken() { this is no PTX; }
`;

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
