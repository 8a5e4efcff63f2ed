/** Which objects, channels, services and programs get time series of their own. */
import { limits } from "../../base/limits.js";

export interface Chosen<T> {
  readonly own: readonly T[];
  readonly leftOut: readonly T[];
}

/**
 * The first ones in this order. Choose an order that seldom changes: each change ends some time
 * series and begins others, and Prometheus keeps them all.
 */
export function firstOf<T>(
  all: readonly T[],
  order: (one: T, other: T) => number,
  max: number = limits.metricsSeriesMax,
): Chosen<T> {
  const sorted = [...all].sort(order);
  return { own: sorted.slice(0, max), leftOut: sorted.slice(max) };
}
