/** Bad handles on the host device, and on the libcuda in C of the conformance suite. */
import { withLibcudaInC } from "../../support/libcuda-in-c.js";
import { describeBadHandles } from "./describe-bad-handles.js";

describeBadHandles({ device: "host" });

withLibcudaInC("handles that open nothing on a libcuda in C", ({ folder, openDriver }) =>
  describeBadHandles({
    device: "cuda:0",
    openDriver,
    env: { LD_LIBRARY_PATH: folder },
    reusesHandles: true,
  }),
);
