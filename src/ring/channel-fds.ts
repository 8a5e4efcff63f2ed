/** The order of the descriptors of a channel. docs/protocol.md has the same table. */

/** The index of each descriptor among all of a channel. */
export const channelFdsAt = {
  data: 0,
  control: 1,
  roomBell: 2,
  page: (seat: number) => 3 + 2 * seat,
  bell: (seat: number) => 4 + 2 * seat,
} as const;

/** The index of each descriptor among those of a reader. */
export const readerFdsAt = { data: 0, control: 1, roomBell: 2, page: 3, bell: 4 } as const;
