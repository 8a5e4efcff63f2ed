import { CProgram } from "../../support/c-program.js";
import { describeRawHandleFiles } from "./describe-raw-handle-files.js";

describeRawHandleFiles({ device: "host", program: CProgram.compile("process/ipc/c/handle.c") });
