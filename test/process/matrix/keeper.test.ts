import { keeperFaults } from "../../support/matrix/cells.js";
import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("keeper", keeperFaults, import.meta.url);
