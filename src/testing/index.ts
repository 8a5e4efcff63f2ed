/** `cuda-ipc/testing`: for the tests of programs that use this package. Nothing here belongs into production. */
import { checkRuntime } from "../base/check-runtime.js";

export type { GpuDriver } from "../driver/gpu-driver.js";
export { createFailingDriver, type FailingDriver, type FailingDriverOptions } from "./failing-driver.js";
export {
  type FailingSystemCall,
  type FailingSystemCallOptions,
  failSystemCall,
  type SystemCall,
} from "./failing-system-calls.js";
export { type DriverCall, type DriverInterceptor, interceptDriver } from "./intercept-driver.js";
export { type CountingDriver, createCountingDriver, type LiveCounts } from "./live-counts.js";

checkRuntime();
