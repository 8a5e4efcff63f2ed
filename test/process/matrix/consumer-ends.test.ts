import { describeMatrix } from "../../support/matrix/describe-matrix.js";

describeMatrix("consumer", ["SIGKILL", "SIGSTOP", "socket cut"], import.meta.url);
