import { CProgram } from "../../support/c-program.js";
import { checkLeaks } from "../../support/leak-check.js";
import { describeRawHandleFiles } from "./describe-raw-handle-files.js";

checkLeaks();

describeRawHandleFiles({ device: "host", program: CProgram.compile("process/ipc/c/handle.c") });
