import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("hub", ["SIGSTOP", "socket cut"], import.meta.url);
