import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("producer", ["SIGKILL", "SIGSTOP", "socket cut"], import.meta.url);
