/** Runs code as another user. Only root can. */

export const OTHER_UID = 12_345;

export const skipUnlessRoot = process.geteuid?.() !== 0 && "only root can be another user";

/**
 * Runs the work as an unprivileged user. The kernel checks that user's permissions, and new files
 * belong to that user.
 */
export function asOtherUser<T>(work: () => T): T {
  process.seteuid?.(OTHER_UID);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
  }
}
