/**
 * Does what a writer or a reader of a ring does, and ends itself with SIGKILL before a given step: an access to the shared words, or a
 * write.
 */
import type { ChannelFacts } from "../../../../src/ring/channel-layout.js";
import { argument } from "../../../support/actor-side.js";
import { act, type Deed } from "../../../support/ring/ring-deaths.js";
import { RingFiles } from "../../../support/ring/ring-files.js";
import { RingRig } from "../../../support/ring/ring-rig.js";
import { eachStep } from "../../../support/ring/shared-accesses.js";

const role = argument(0) as Deed["role"];
const dieAt = Number(argument(1));
const facts = JSON.parse(argument(2)) as ChannelFacts;

const isWriter = role === "writer";
// WHY: what a side may not write is mapped for reading alone; writing it would end this process with another signal.
const files = RingFiles.inherited(facts, {
  control: isWriter ? "read-write" : "read",
  data: isWriter ? "read-write" : "read",
  page: (place) => (!isWriter && place === 0 ? "read-write" : "read"),
});
const rig = new RingRig(facts, files.memory);
eachStep(
  (count) => {
    if (count === dieAt) process.kill(process.pid, "SIGKILL");
  },
  () => act(role, rig),
);
