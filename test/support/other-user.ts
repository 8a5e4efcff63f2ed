/** Becomes another user for a moment. Only root can. */

const OTHER_UID = 12_345;

export const skipUnlessRoot = process.geteuid?.() !== 0 && "only root can be another user";

/**
 * Does the work as a user without any rights. Permissions are that user's meanwhile, and what is
 * made is of that user.
 */
export function asOtherUser<T>(work: () => T): T {
  process.seteuid?.(OTHER_UID);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
  }
}
