/** Says that the program itself holds what it waits for. */

const plurals = { message: "messages", reply: "replies" } as const;

/** `this process itself (process 77) holds 4 replies that are not released` */
export function heldHere(count: number, what: keyof typeof plurals): string {
  const held = count === 1 ? `1 ${what} that is` : `${count} ${plurals[what]} that are`;
  return `this process itself (process ${process.pid}) holds ${held} not released`;
}
