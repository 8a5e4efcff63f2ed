/** Runs the kernels in the PTX machine, against the promises about operations. */
import { describeOperations } from "../../../conformance/describe-conformance.js";
import { createPtxDriver } from "../../../support/ptx-driver.js";

// Fewer blocks than elements need, so that every thread has several. Enough areas for every test.
const sizes = { mapBlocks: 3, reductionBlocks: 5, areas: 64 };

function createPrepared() {
  const { driver } = createPtxDriver(sizes);
  driver.prepareOperations(0);
  return driver;
}

describeOperations("the kernels in the PTX machine", createPrepared, 3 * 5 * 256 + 77);
