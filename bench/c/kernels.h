/*
 * The float32 kernels of src/driver/cuda/kernels/map-kernels.ts: iota, to[i] = i * step + start,
 * and affine, to[i] = a * from[i] + b. In each, the whole grid loops over the elements.
 */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#define LOOP_BEGIN \
  ".reg .pred %more, %isNan;\n" \
  ".reg .u32 %thread, %threads, %block, %blocks;\n" \
  ".reg .u64 %i, %jump, %address, %to, %count;\n" \
  ".reg .f32 %x;\n" \
  ".reg .b32 %bits;\n" \
  "ld.param.u64 %to, [to];\n" \
  "cvta.to.global.u64 %to, %to;\n" \
  "ld.param.u64 %count, [count];\n" \
  "mov.u32 %thread, %tid.x;\n" \
  "mov.u32 %threads, %ntid.x;\n" \
  "mov.u32 %block, %ctaid.x;\n" \
  "mov.u32 %blocks, %nctaid.x;\n" \
  "cvt.u64.u32 %i, %thread;\n" \
  "mad.wide.u32 %i, %block, %threads, %i;\n" \
  "mul.wide.u32 %jump, %blocks, %threads;\n" \
  "setp.lt.u64 %more, %i, %count;\n" \
  "@!%more bra DONE;\n" \
  "LOOP:\n"

#define LOOP_END \
  "mad.lo.u64 %address, %i, 4, %to;\n" \
  "setp.nan.f32 %isNan, %x, %x;\n" \
  "mov.b32 %bits, %x;\n" \
  "selp.b32 %bits, 0x7FC00000, %bits, %isNan;\n" \
  "st.global.u32 [%address], %bits;\n" \
  "add.u64 %i, %i, %jump;\n" \
  "setp.lt.u64 %more, %i, %count;\n" \
  "@%more bra LOOP;\n" \
  "DONE:\n" \
  "ret;\n"

static const char kernel_source[] =
    ".version 7.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry iota(.param .u64 to, .param .u64 count, .param .f32 start, .param .f32 step)\n"
    "{\n"
    ".reg .f32 %start, %step;\n"
    "ld.param.f32 %start, [start];\n"
    "ld.param.f32 %step, [step];\n" LOOP_BEGIN
    "cvt.rn.f32.u64 %x, %i;\n"
    "mul.rn.f32 %x, %x, %step;\n"
    "add.rn.f32 %x, %x, %start;\n" LOOP_END
    "}\n"
    ".visible .entry affine(.param .u64 to, .param .u64 from, .param .u64 count, .param .f32 a, .param .f32 b)\n"
    "{\n"
    ".reg .u64 %from;\n"
    ".reg .f32 %a, %b;\n"
    "ld.param.u64 %from, [from];\n"
    "cvta.to.global.u64 %from, %from;\n"
    "ld.param.f32 %a, [a];\n"
    "ld.param.f32 %b, [b];\n" LOOP_BEGIN
    "mad.lo.u64 %address, %i, 4, %from;\n"
    "ld.global.f32 %x, [%address];\n"
    "mul.rn.f32 %x, %x, %a;\n"
    "add.rn.f32 %x, %x, %b;\n" LOOP_END
    "}\n";

#endif
