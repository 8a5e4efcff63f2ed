/**
 * Acts as a writer or a reader of a ring, and kills itself (SIGKILL) before a given access to the
 * shared words.
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
// Words that a side may not write are mapped read-only. A write would end this process by another
// signal.
const files = RingFiles.inherited(facts, {
  control: isWriter ? "read-write" : "read",
  data: isWriter ? "read-write" : "read",
  page: (seat) => (!isWriter && seat === 0 ? "read-write" : "read"),
});
const rig = new RingRig(facts, files.memory);
eachStep(
  (count) => {
    if (count === dieAt) process.kill(process.pid, "SIGKILL");
  },
  () => act(role, rig),
);
