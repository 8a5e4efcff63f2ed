/** The cells of the fault matrix: which role is hit, by which fault, during which step. */

/** Roles with a process of their own, which the test starts. */
export const parties = ["producer", "consumer", "hub"] as const;
export const roles = [...parties, "keeper"] as const;
export const faults = [
  "SIGKILL",
  "SIGSTOP",
  "socket cut",
  "fd table full",
  "disk full",
  "memory limit",
] as const;
/**
 * Faults of a keeper, or of a hub with a keeper. In the cells of the other roles, hubs have no
 * keeper.
 */
export const keeperFaults = ["SIGKILL", "SIGKILL, then hub restart", "SIGKILL of its hub"] as const;
export const steps = [
  "create",
  "publish",
  "replace",
  "open",
  "read",
  "write",
  "close",
  "reconnect",
] as const;

export type Role = (typeof roles)[number];
export type PartyRole = (typeof parties)[number];
export type PartyFault = (typeof faults)[number];
export type KeeperFault = (typeof keeperFaults)[number];
export type Fault = PartyFault | KeeperFault;
export type Step = (typeof steps)[number];

export interface Cell {
  readonly role: Role;
  readonly fault: Fault;
  readonly step: Step;
}

export const cells: readonly Cell[] = roles.flatMap((role) =>
  faultsOfRole(role).flatMap((fault) => steps.map((step) => ({ role, fault, step }))),
);

export function faultsOfRole(role: Role): readonly Fault[] {
  return role === "keeper" ? keeperFaults : faults;
}

export function cellName({ role, fault, step }: Cell): string {
  return `${role}, ${fault}, ${step}`;
}

/** The parties that call the client API in the step. The hub only answers. */
export const doersOf: Readonly<Record<Step, readonly PartyRole[]>> = {
  create: ["producer"],
  publish: ["producer"],
  replace: ["producer"],
  open: ["consumer"],
  read: ["consumer"],
  write: ["producer"],
  close: ["producer", "consumer"],
  reconnect: ["producer", "consumer"],
};

/**
 * Whether the victim takes part in the step. Then the fault hits it within its own system calls.
 */
export function takesPart({ role, step }: Cell): boolean {
  if (role === "keeper") return true;
  if (role === "hub") return step !== "read" && step !== "write";
  return doersOf[step].includes(role);
}
