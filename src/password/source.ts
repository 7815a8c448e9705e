/** The origin of a task of `SlowWork`. Sources share the computing time fairly. */
export interface Source {
  /** The network that the request came from. */
  readonly network: string;
  /** The user whose password is verified or hashed. */
  readonly identity: string;
  /** An object that is unique to the connection of the request. */
  readonly connection?: object | undefined;
  /** Whether the result is no longer needed: the connection is closed or the operation abandoned. */
  readonly isGone?: boolean;
  /** Registers a callback for when `isGone` becomes true. Returns a function that removes the callback. */
  onGone?(callback: () => void): () => void;
}
