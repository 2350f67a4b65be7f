import type { components } from "./wire.js";
import { millis, type Duration } from "./time.js";

type Problem = components["schemas"]["Problem"];

/** A request that failed. The subclasses are those that a program tells apart. */
export class DelayqError extends Error {
  /** The kind of problem, such as `conflict`, `queue-full` or `unauthorized`. Kinds keep their meaning. */
  readonly kind: string;
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;
  readonly title: string;
  /** What is wrong, and what to change. */
  readonly detail: string;
  /** True if the same request may be sent again. */
  readonly isRepeatable: boolean;
  /** True if the request may have been applied although it failed. */
  isInDoubt: boolean;
  /** Milliseconds to wait before the request is sent again, if the server says so. */
  readonly retryAfter?: number;

  constructor(problem: Partial<Problem> & { isInDoubt?: boolean }, options?: ErrorOptions) {
    const { type = "", title = "the request failed", status = 0, detail = title } = problem;
    super(detail, options);
    this.name = new.target.name;
    this.kind = type.slice(type.lastIndexOf(":") + 1);
    this.title = title;
    this.status = status;
    this.detail = detail;
    this.isRepeatable = problem.is_repeatable ?? false;
    this.isInDoubt = problem.isInDoubt ?? (status === 502 || status === 504);
    if (problem.retry_after != null) this.retryAfter = 1000 * problem.retry_after;
  }
}

/** 409: another task has the id, or the state of the task does not allow the change. */
export class Conflict extends DelayqError {}
/** 404: there is no such task, type, batch or recurring task. */
export class NotFound extends DelayqError {}
/** 401 or 403: the token is not valid, or may not do this. */
export class Unauthorized extends DelayqError {}
/** 400 or 422: a name, an option or a message is not valid. */
export class InvalidInput extends DelayqError {}
/** 413, 429 or 507: a message is too large, there are too many requests or tasks, or the store is full. */
export class LimitExceeded extends DelayqError {}
/** The server or its store cannot be reached. `isInDoubt` says whether the request may have been applied. */
export class Unavailable extends DelayqError {}
/** The lock of a task is lost: another worker may have the task. */
export class LockLost extends DelayqError {}

const CLASSES: Record<number, typeof DelayqError> = {
  400: InvalidInput, 401: Unauthorized, 403: Unauthorized, 404: NotFound, 409: Conflict, 413: LimitExceeded,
  422: InvalidInput, 429: LimitExceeded, 502: Unavailable, 503: Unavailable, 504: Unavailable, 507: LimitExceeded,
};

/** The error of a problem that the server answered. @internal */
export function failure(problem: Partial<Problem> & { isInDoubt?: boolean }, options?: ErrorOptions): DelayqError {
  const isLost = problem.type?.endsWith(":lock-lost");
  // A 404 of an address, or of a server without a history, says nothing of a task.
  const isElsewhere = /:no-(route|history)$/.test(problem.type ?? "");
  const known = isElsewhere ? DelayqError : CLASSES[problem.status ?? 0];
  const Class = isLost ? LockLost : known ?? (problem.status ? DelayqError : Unavailable);
  return new Class(problem, options);
}

/** Thrown by a handler: the task is dead at once, without a retry. */
export class Dead extends Error {
  override readonly name = "Dead";
}

/** Thrown by a handler: the task is given back and due again after this time. This uses up no attempt. */
export class Later extends Error {
  override readonly name = "Later";
  constructor(readonly after: Duration) {
    super(`later, after ${after}`);
    millis(after);
  }
}

/** Thrown by a handler: the attempt failed, and the next one begins after this time. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  constructor(readonly after: Duration, error: unknown = "to be tried again") {
    super(error instanceof Error ? `${error.name}: ${error.message}` : String(error), { cause: error });
    millis(after);
  }
}

/** The reason of `cx.signal`: why a handler should stop. */
export class Stopped extends Error {
  override readonly name = "Stopped";
  constructor(readonly why: "cancelled" | "lost" | "shutdown") {
    super({ cancelled: "the task was cancelled", lost: "the lock is lost", shutdown: "the worker stops" }[why]);
  }
}

/** The signature of a web hook is missing, wrong or too old. */
export class InvalidSignature extends DelayqError {
  constructor(detail: string) {
    super({ type: "urn:delayq:problem:invalid-signature", title: "the signature is not valid", status: 401, detail });
  }
}
