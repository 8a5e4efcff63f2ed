/** The messages between a demo and its actors. */

/** The one argument of an actor, as JSON. */
export interface ActorPart {
  readonly socket: string;
  readonly device: string;
  readonly elements: number;
}

export type FromActor =
  /** A step that the demo prints. */
  | { readonly kind: "say"; readonly text: string }
  /** A point that the demo may wait for. */
  | { readonly kind: "reached"; readonly point: string }
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

/** Tells an actor to continue where it waits for this word. */
export interface ToActor {
  readonly go: string;
}

/** The array's name in all demos. */
export const ARRAY_NAME = "demo";

/** The producer's value of element i: exact in float32 up to 2^24 elements, rounded above. */
export function producedValue(i: number): number {
  return Math.fround(i * 0.5 + 1);
}

/** The same element after the consumer has changed it. */
export function consumedValue(i: number): number {
  return Math.fround(producedValue(i) * -2);
}
