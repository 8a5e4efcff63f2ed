/** A driver around a driver, with hooks before and after every call of the seam. */
import type { GpuDriver } from "../../src/driver/gpu-driver.js";

/** The names of the seam's functions. */
export type DriverCall = {
  [Name in keyof GpuDriver]: GpuDriver[Name] extends (...values: never[]) => unknown ? Name : never;
}[keyof GpuDriver];

export interface DriverInterceptor {
  /** Runs before a call. If it throws, the call throws that error and does not run. */
  before?(call: DriverCall, values: readonly unknown[]): void;
  /** Runs after a call that returned. If it throws, the call throws that error. */
  after?(call: DriverCall, values: readonly unknown[], result: unknown): void;
  /** Replaces the result of a call. */
  result?(call: DriverCall, result: unknown): unknown;
}

export function interceptDriver(driver: GpuDriver, interceptor: DriverInterceptor): GpuDriver {
  return new Proxy(driver, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...values: unknown[]) => {
        const call = name as DriverCall;
        interceptor.before?.(call, values);
        const result: unknown = Reflect.apply(member, target, values);
        interceptor.after?.(call, values, result);
        return interceptor.result === undefined ? result : interceptor.result(call, result);
      };
    },
  });
}
