export { App, type AppOptions, type TaskType, type WaitOptions } from "./app.js";
export type { Context } from "./context.js";
export {
  Conflict, Dead, DelayqError, InvalidInput, InvalidSignature, Later, LimitExceeded, LockLost, NotFound, RetryAfter, Stopped,
  Unauthorized, Unavailable,
} from "./errors.js";
export type { Schema } from "./schema.js";
export type {
  BatchReceipt, BatchState, Changed, Life, NewTask, Receipt, Recurring, Reply, SendOptions, Task,
} from "./task.js";
export type { Duration } from "./time.js";
export { Webhook, type Hook, type WebhookOptions } from "./webhook.js";
export type { Around, Handler, RetryOptions, WorkOptions } from "./worker.js";
