import type { ConnectionEvent, FinishedOperation, Observer } from './finished-operation.js';

/** The observers of the operations of a process, such as logs. Without observers nothing is made for them. */
export class Observation {
  readonly #observers = new Set<Observer>();

  get isActive(): boolean {
    return this.#observers.size > 0;
  }

  /** Adds an observer. Returns a function that removes the observer. */
  add(observer: Observer): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  reportOperation(operation: FinishedOperation): void {
    for (const observer of this.#observers) observer.onOperation(operation);
  }

  reportConnection(event: ConnectionEvent): void {
    for (const observer of this.#observers) observer.onConnection?.(event);
  }
}
