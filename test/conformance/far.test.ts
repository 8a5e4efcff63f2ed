import { createFarDriver } from "../support/far-driver.js";
import { describeConformance } from "./describe-conformance.js";

describeConformance("conformance of a driver whose memory the CPU does not see", createFarDriver, {
  large: 1003,
});
