import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("hub", ["SIGKILL"], import.meta.url);
