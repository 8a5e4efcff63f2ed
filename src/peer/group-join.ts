/** The forming of a group as the other ranks see it: they find rank 0, say who they are, and are told when all have come. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireInAsync } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { decodePeerMessage } from "../wire/codec.js";
import { joinedSchema, PEER_VERSION } from "../wire/peer-messages.js";
import { awaitListener } from "./await-listener.js";
import type { Member } from "./group-barrier.js";
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
}

/** The caller closes link and words. */
export function joinHost(place: GroupPlace, rank: number, deadline: Deadline): Promise<Joined> {
  return acquireInAsync(async (scope) => {
    const link = scope.own(await awaitListener(place.path, deadline), (link) => link.close());
    const request = { v: PEER_VERSION, op: "join", rank, size: place.size } as const;
    const { bytes, fds } = await link.request(request, deadline);
    try {
      const members = readMembers(place, rank, bytes);
      return { link, words: GroupWords.open(onlyOne(fds), rank, place.size), members };
    } finally {
      closeFds(fds);
    }
  });
}

function readMembers({ label, size }: GroupPlace, rank: number, bytes: Uint8Array): readonly Member[] {
  const reply = decodePeerMessage(`the answer of rank 0 of ${label}`, joinedSchema, bytes);
  if (!reply.ok) throw refusedBy(reply);
  if (reply.members.length === size && reply.members[rank]?.pid === process.pid) return reply.members;
  const found = `rank 0 names ${reply.members.length} members, with process ${reply.members[rank]?.pid} as rank ${rank}`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot join ${label}: ${found}`);
}

function onlyOne(fds: readonly OwnedFd[]): OwnedFd {
  const [memory] = fds;
  if (memory !== undefined && fds.length === 1) return memory;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot join a group: ${fds.length} file descriptors came, wanted 1`);
}
