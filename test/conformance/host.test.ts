import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { describeConformance } from "./describe-conformance.js";

describeConformance("conformance of the host driver", createHostDriver, { large: 100_003 });
