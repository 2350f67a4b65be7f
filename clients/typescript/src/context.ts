import type { Line, SendOptions } from "./task.js";
import type { components } from "./wire.js";

type Claimed = components["schemas"]["ClaimedView"];

/** What a handler knows of its task, and how it is told to stop. */
export class Context {
  readonly type: string;
  readonly id: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Grows with each lock of the task: a system that you write to can refuse a smaller one. */
  readonly fence: number;
  readonly dueAt: Date;
  readonly submittedAt: Date;
  readonly expiresAt?: Date;
  readonly headers: Readonly<Record<string, string>>;
  readonly group?: string;
  /** The error of the attempt before. */
  readonly lastError?: string;
  /** Aborted if the handler should stop, for any reason: a `Stopped`, with `why`. Pass it to `fetch` and the like. */
  readonly signal: AbortSignal;
  /** Aborted if the task was cancelled. */
  readonly cancelled: AbortSignal;
  /** Aborted if the lock is lost: another worker may have the task, and nothing is reported any more. */
  readonly lost: AbortSignal;
  /** @internal */
  readonly follows: Line[] = [];

  /** @internal */
  constructor(
    task: Claimed,
    signals: { any: AbortSignal; cancelled: AbortSignal; lost: AbortSignal },
    private readonly line: (type: string, message: unknown, options: SendOptions) => Line,
  ) {
    this.type = task.type;
    this.id = task.id;
    this.attempt = task.attempt;
    this.fence = task.fence;
    this.dueAt = new Date(task.due_at);
    this.submittedAt = new Date(task.submitted_at);
    if (task.expires_at != null) this.expiresAt = new Date(task.expires_at);
    this.headers = task.headers;
    if (task.headers.group !== undefined) this.group = task.headers.group;
    if (task.last_error != null) this.lastError = task.last_error;
    this.signal = signals.any;
    this.cancelled = signals.cancelled;
    this.lost = signals.lost;
  }

  /** Sends a further task together with the end of this one, if the handler returns. Up to 128; it runs once. */
  followUp(type: string, message?: unknown, options: SendOptions = {}): void {
    this.follows.push(this.line(type, message, options));
  }

  toString(): string {
    return `${this.type} ${this.id} (attempt ${this.attempt})`;
  }
}
