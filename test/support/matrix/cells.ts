/** The cells of the fault matrix: which role is hit, by which fault, during which step. */

/** Those that have a process of their own, which the test starts. */
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
/** What hits a keeper, or a hub that has one. In the cells of the other roles hubs have none. */
export const keeperFaults = ["SIGKILL", "SIGKILL, then hub restart", "SIGKILL of its hub"] as const;
export const steps = ["create", "publish", "open", "read", "write", "close", "reconnect"] as const;

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

/** Those who call something in the step. The hub's part in it is no call of anybody's. */
export const doersOf: Readonly<Record<Step, readonly PartyRole[]>> = {
  create: ["producer"],
  publish: ["producer"],
  open: ["consumer"],
  read: ["consumer"],
  write: ["producer"],
  close: ["producer", "consumer"],
  reconnect: ["producer", "consumer"],
};

/**
 * Whether the one that is hit has a part in the step itself, so that it is hit within its own
 * system calls.
 */
export function takesPart({ role, step }: Cell): boolean {
  if (role === "keeper") return true;
  if (role === "hub") return step !== "read" && step !== "write";
  return doersOf[step].includes(role);
}
