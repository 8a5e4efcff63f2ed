import { after, before } from "node:test";
import { defaults } from "../../src/base/limits.js";

/**
 * Within this suite, clients of this process wait as long for the explanation of a TIMEOUT as a
 * busy machine may need.
 */
export function patientExplanations(): void {
  const { explanationMs } = defaults;
  before(() => Object.assign(defaults, { explanationMs: 30_000 }));
  after(() => Object.assign(defaults, { explanationMs }));
}
