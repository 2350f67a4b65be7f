import { traceHeaders } from "./tracing.js";
import type { Duration } from "./time.js";
import type { components } from "./wire.js";

type Schemas = components["schemas"];
/** A task as the server reads it in a line or a batch. @internal */
export type Line = Partial<Schemas["Line"]>;

/** `order_id` as `orderId`. */
type Camel<K> = K extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : K;
type Time = "at" | "since" | `${string}_at`;
/** An answer of the server with names in camel case, and times as `Date`. */
export type View<T> = { [K in keyof T as Camel<K>]: K extends Time ? Date | Extract<T[K], undefined> : Exclude<T[K], null> };

/** What a send answered. */
export interface Receipt<R = unknown> {
  id: string;
  /** `already_exists` may stand for an earlier send of the same call whose answer was lost. */
  outcome: "accepted" | "replaced" | "already_exists" | "runs_again" | (string & {});
  dueAt?: Date;
  /** What the acceptance survives. */
  durability: "memory" | "process" | "disk" | "replicated" | (string & {});
  /** The state of the task that existed; with `wait`: `done`, or `pending` if it had not ended in time. */
  state?: string;
  /** With `wait`: what the handler returned. */
  reply?: R;
}
/** The end of a wait for a reply. `pending`: the task goes on. */
export interface Reply<R = unknown> {
  state: "done" | "pending";
  reply?: R;
}
/** A task as the server knows it. `message` is decoded; it is absent once the task has ended. */
export interface Task<M = unknown> extends Omit<View<Schemas["TaskView"]>, "message" | "messageBase64"> {
  message?: M;
}
/** A change of a task that was applied. */
export interface Changed {
  outcome: "changed";
  dueAt: Date;
}
export interface BatchReceipt extends View<Schemas["BatchAccepted"]> {}
/** How far a batch is. */
export interface BatchState {
  state: "waiting" | "cancelled" | "over" | "dead" | (string & {});
  counts?: Record<"total" | "done" | "dead" | "cancelled" | "expired" | "forgotten", number> & { name: string };
  /** False if only the first 1,000 members were looked at. */
  isExact: boolean;
}
/** A recurring task. `message` is decoded. */
export interface Recurring<M = unknown> extends Omit<View<Schemas["RecurringView"]>, "message" | "messageBase64"> {
  message?: M;
}
/** The end of a life of a task, as the history of the server keeps it. */
export interface Life {
  type: string;
  id: string;
  outcome: "done" | "dead" | "expired" | "cancelled" | "discarded" | (string & {});
  submittedAt: Date;
  dueAt: Date;
  startedAt?: Date;
  endedAt: Date;
  runMs?: number;
  attempts: number;
  group?: string;
  project?: string;
  error?: string;
  message?: unknown;
}

/** When and how a task runs. */
export interface SendOptions {
  /** Names the task within its type. Without one, a random id is made. */
  id?: string;
  /** Due after this time. */
  after?: Duration;
  /** Due at this time: a Date, milliseconds since the epoch, or text in RFC 3339 or with a zone. */
  at?: Date | number | string;
  /** If another task has the id: an error (the default), keep it, or replace it. */
  onConflict?: "reject" | "keep" | "replace";
  /** Due once nobody has sent this id for this time, and `maxWait` after the first send at the latest. */
  debounce?: Duration;
  maxWait?: Duration;
  /** One task for each id and window of this length, due at its end. The receipt has its id. */
  throttle?: Duration;
  /** The task does not start later than this after its due time. */
  expiresAfter?: Duration;
  expiresAt?: Date | number | string;
  group?: string;
  project?: string;
  headers?: Record<string, string>;
  /** If the task runs now, it runs once more afterwards. */
  againIfRunning?: boolean;
}
/** A task of a `sendAll` or a batch. */
export interface NewTask<M = unknown> extends SendOptions {
  type: string;
  message?: M;
}

const time = (at: Date | number | string | undefined): number | string | undefined => (at instanceof Date ? at.getTime() : at);
function span(length: Duration | undefined): Duration | undefined {
  // The server takes it for milliseconds, and a reader for seconds.
  if (typeof length === "string" && /^[\d.\s]+$/.test(length)) throw new RangeError(`${length} has no unit: write such as ${length}s`);
  return typeof length === "number" ? Math.round(length) : length;
}

/** The bytes or the JSON of a message. @internal */
export function encoded(message: unknown): { body: Uint8Array | string; contentType?: string } {
  if (message instanceof Uint8Array) return { body: message };
  const body = JSON.stringify(message ?? null);
  if (body === undefined) throw new TypeError(`the message is a ${typeof message}, which JSON does not have`);
  return { body, contentType: "application/json" };
}

/** A task as the server reads it, with the present trace context if it is to be traced. @internal */
export function lineOf(message: unknown, options: SendOptions, isTraced = false): Line {
  const { id, after, at, onConflict, debounce, maxWait, throttle, expiresAfter, expiresAt, ...others } = options;
  const { group, project, headers, againIfRunning, ...unknown } = others;
  const [name] = Object.keys(unknown);
  if (name) throw new TypeError(`${name} is no option of a task`);
  const { body, contentType } = encoded(message);
  return {
    id,
    ...(typeof body === "string" ? { message: body } : { message_base64: Buffer.from(body).toString("base64") }),
    headers: {
      ...(isTraced && traceHeaders()),
      ...(contentType && { "content-type": contentType }),
      ...headers,
    },
    delay: span(after),
    at: time(at),
    on_conflict: onConflict,
    debounce: span(debounce),
    max_wait: span(maxWait),
    throttle: span(throttle),
    expires_after: span(expiresAfter),
    expires_at: time(expiresAt),
    group,
    project,
    again_if_running: againIfRunning,
  };
}

/** An answer with names in camel case, and times as `Date`. @internal */
export function view<T>(answer: object): T {
  const entries = Object.entries(answer).filter(([, value]) => value !== null);
  return Object.fromEntries(entries.map(([name, value]) => [
    name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    typeof value === "number" && /^(at|since|.*_at)$/.test(name) ? new Date(value) : value,
  ])) as T;
}

/** The message of a task in an answer: bytes, or text. @internal */
export function bodyOf(view: Schemas["MessageView"]): Uint8Array | string | undefined {
  if (view.message_base64 != null) return new Uint8Array(Buffer.from(view.message_base64, "base64"));
  return view.message ?? undefined;
}
