import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("consumer", ["fd table full", "disk full", "memory limit"], import.meta.url);
