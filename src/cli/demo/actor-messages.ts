/** What the demo and its actors tell each other. */

/** How an actor is started: as its one argument, in JSON. */
export interface ActorPart {
  readonly socket: string;
  readonly device: string;
  readonly elements: number;
}

export type FromActor =
  /** A step that was done, for people. */
  | { readonly kind: "say"; readonly text: string }
  /** A point that the demo waits for. */
  | { readonly kind: "reached"; readonly point: string }
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

/** To an actor: go on from the point where it waits for this word. */
export interface ToActor {
  readonly go: string;
}

/** The array's name in all demos. */
export const ARRAY_NAME = "demo";

/** What the producer writes, and what the consumer turns it into; both exact in float32 up to 2^24 elements, rounded alike beyond. */
export function producedValue(i: number): number {
  return Math.fround(i * 0.5 + 1);
}

export function consumedValue(i: number): number {
  return Math.fround(producedValue(i) * -2);
}
