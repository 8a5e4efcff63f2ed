import { describeModelFile } from "./describe-model-file.js";

describeModelFile("host", "memfd", false);
