/** A kernel that increments a word for a number of nanoseconds. PTX 7.0 for sm_52. */
export const COUNT_KERNEL = `.version 7.0
.target sm_52
.address_size 64
.visible .entry count(.param .u64 to, .param .u64 nanoseconds)
{
  .reg .pred %p;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd0, [to];
  cvta.to.global.u64 %rd0, %rd0;
  ld.param.u64 %rd1, [nanoseconds];
  mov.u64 %rd2, %globaltimer;
LOOP:
  red.global.add.u64 [%rd0], 1;
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p, %rd4, %rd1;
  @%p bra LOOP;
  ret;
}
`;
