/** What completion offers for the end of a command line. */
export interface Offer {
  readonly value: string;
  /** A description, for shells that show one. */
  readonly text?: string;
}

/** "files": the shell completes the path itself, because it knows how to. */
export type Offers = "files" | readonly Offer[];
