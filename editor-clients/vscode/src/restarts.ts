/**
 * Restarts: starts the server again for what it only reads at its start, never in mid-turn.
 *
 * Rules: once for all that asks for it meanwhile; what asks while the server already starts is not known to it, so that
 * it starts once more.
 */

// The client library first tells the server that runs of a change of the configuration.
const SETTLE_MS = 300;

type Parts = {
  /** Resolves when no turn runs. */
  idle: () => Promise<void>;
  restart: () => Promise<void>;
  settleMs?: number;
};

export class Restarts {
  readonly #parts: Parts;
  #asked = false;
  #working: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Start the server again as soon as no turn runs; resolves when one runs that knows what was asked for. */
  whenIdle(): Promise<void> {
    this.#asked = true;
    this.#working ??= this.#work();
    return this.#working;
  }

  async #work(): Promise<void> {
    const { idle, restart, settleMs = SETTLE_MS } = this.#parts;
    try {
      while (this.#asked) {
        await new Promise((resolve) => setTimeout(resolve, settleMs));
        await idle();
        this.#asked = false;
        await restart();
      }
    } finally {
      this.#working = undefined;
    }
  }
}
