/** The forming of a group as the other ranks see it: they find rank 0, say who they are, and are told when all have come. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireInAsync } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownIdentity } from "../os/process-identity.js";
import { decodePeerMessage } from "../wire/codec.js";
import { joinedSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { awaitListener } from "./await-listener.js";
import { type Member, ranksWithPidfd } from "./group-barrier.js";
import type { GroupPlace } from "./group-host.js";
import { GroupWords } from "./group-words.js";
import { closeFds, type PeerLink } from "./peer-link.js";
import { refusedBy } from "./refusal.js";

export interface Joined {
  /** Kept until all have met at the first barrier: rank 0 sees by it who gave up on the way. */
  readonly link: PeerLink;
  readonly words: GroupWords;
  /** In order of ranks. */
  readonly members: readonly Member[];
  /** Of members, by their ranks. */
  readonly pidfds: ReadonlyMap<number, OwnedFd>;
}

/** The caller closes link, words and pidfds. */
export function joinHost(place: GroupPlace, rank: number, deadline: Deadline): Promise<Joined> {
  return acquireInAsync(async (scope) => {
    const link = scope.own(await awaitListener(place.path, deadline), (link) => link.close());
    const { pid, startTicks, pidNamespace } = ownIdentity();
    const member = { pid, startTicks, pidNamespace };
    const request = { v: PEER_VERSION, op: "join", rank, size: place.size, member } as const;
    const { bytes, fds } = await link.request(request, deadline);
    scope.own(fds, closeFds);
    const members = readMembers(place, rank, bytes);
    const ranks = ranksWithPidfd(members, rank);
    const [memory, ...pidfds] = fds;
    if (memory === undefined || pidfds.length !== ranks.length) {
      const found = `${fds.length} file descriptors came, wanted ${1 + ranks.length}`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot join ${place.label}: ${found}`);
    }
    const words = GroupWords.open(memory, rank, place.size);
    memory.close();
    return { link, words, members, pidfds: new Map(ranks.map((of, index) => [of, pidfds[index] as OwnedFd])) };
  });
}

function readMembers({ label, size }: GroupPlace, rank: number, bytes: Uint8Array): readonly Member[] {
  const reply = decodePeerMessage(`the answer of rank 0 of ${label}`, joinedSchema, bytes);
  if (!reply.ok) throw refusedBy(reply);
  if (reply.members.length === size && reply.members[rank]?.pid === process.pid) return reply.members;
  const found = `rank 0 names ${reply.members.length} members, with process ${reply.members[rank]?.pid} as rank ${rank}`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot join ${label}: ${found}`);
}
