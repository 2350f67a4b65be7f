import { randomBytes } from "node:crypto";
import { DelayqError, failure, InvalidInput, NotFound, Unavailable } from "./errors.js";
import { ask, baseOf, jsonOf, type Answer, type Place } from "./http.js";
import { decoded, type Schema } from "./schema.js";
import {
  bodyOf, encoded, lineOf, view, type BatchReceipt, type BatchState, type Changed, type Life, type Line, type NewTask,
  type Receipt, type Recurring, type Reply, type SendOptions, type Task,
} from "./task.js";
import { backoff, millis, now, sleep, type Duration } from "./time.js";
import { tracingReady } from "./tracing.js";
import type { components } from "./wire.js";
import { Crew, type Around, type Handler, type Served, type WorkOptions } from "./worker.js";

type Schemas = components["schemas"];

export interface AppOptions {
  /** The address of a namespace, such as `http://127.0.0.1:7880/v1/default`, or of the server. Default: `DELAYQ_HTTP`. */
  url?: string;
  /** Default: `DELAYQ_TOKEN`. */
  token?: string;
  /** The namespace, if the address does not name it. Default: `default`. */
  namespace?: string;
  /** How long one request may take; default 10 s. */
  timeout?: Duration;
  /** How long a request is repeated while the server is away or its answer is lost; default 30 s. */
  patience?: Duration;
  /** How long running handlers have to finish when the app stops; default 20 s. */
  grace?: Duration;
  /** Sends requests, such as through a proxy or with a client certificate. Default: the `fetch` of Node. */
  fetch?: typeof fetch;
  /** Gets what workers have to say; default: `console`, of which only the standard error is used. */
  log?: Pick<Console, "warn" | "error">;
  /** Sends the trace context also with ids of your own. The same id sent by another request is then another task. */
  traceOwnIds?: boolean;
}

/** A task of `task`, to send it with typed messages. */
export interface TaskType<M> {
  readonly type: string;
  send<R = unknown>(message: M, options?: SendOptions & WaitOptions): Promise<Receipt<R>>;
}

export interface WaitOptions {
  /** Waits this long for what the handler returns. */
  wait?: Duration;
  /** Ends the call. What was sent stays sent. */
  signal?: AbortSignal;
}

const BULK_LINES = 1000;
const BULK_BYTES = 1 << 20;
/** What a large request may take beyond the time limit of others. */
const LARGE = 50_000;
/** For a line of an answer that ended early. */
const CUT_OFF = '{"problem":{"type":"in-doubt","status":504,"detail":"the answer ended early","is_repeatable":true}}';
const LONGEST_WAIT = 30_000;
/** Header names and values that HTTP carries as they are. */
const PLAIN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/i;
const VISIBLE = /^([!-~]([ -~]*[!-~])?)?$/;

/** Sends tasks to a server, and works on them. */
export class App {
  readonly #place: Place;
  readonly #options: AppOptions;
  readonly #grace: number;
  readonly #served = new Map<string, Served>();
  readonly #around: Around[] = [];
  #crew?: Crew;

  constructor(options: AppOptions = {}) {
    const { url = process.env.DELAYQ_HTTP, token = process.env.DELAYQ_TOKEN, namespace } = options;
    const base = baseOf(url, namespace);
    if (!token) throw new TypeError("token: it is missing or empty; give it, or set DELAYQ_TOKEN");
    if (!/^[!-~]+$/.test(token)) throw new TypeError("token: it has blanks or other characters that no token has");
    const { timeout = 10_000, patience = 30_000, grace = 20_000, fetch = globalThis.fetch } = options;
    this.#place = { base, token, timeout: millis(timeout), patience: millis(patience), fetch };
    this.#options = options;
    this.#grace = millis(grace);
  }

  /** Sends a task. The message is any JSON value, or bytes. */
  async send<R = unknown>(type: string, message?: unknown, options: SendOptions & WaitOptions = {}): Promise<Receipt<R>> {
    const { wait, signal, ...rest } = options;
    const line = await this.#line(message, rest);
    const receipt = await this.#create<R>(type, line, signal);
    if (wait === undefined) return receipt;
    return { ...receipt, ...(await this.reply<R>(type, receipt.id, { wait, signal })) };
  }

  /** Sends many tasks. Each has a receipt or an error, in the order of the tasks. */
  async sendAll(tasks: readonly NewTask[]): Promise<(Receipt | DelayqError)[]> {
    const outcomes: (Receipt | DelayqError)[] = [];
    const byType = new Map<string, { index: number; line: Line; bytes: number }[]>();
    for (const [index, { type, message, ...options }] of tasks.entries()) {
      const line = await this.#line(message, options);
      const bytes = Buffer.byteLength(JSON.stringify(line)) + 1;
      if (!byType.has(type)) byType.set(type, []);
      byType.get(type)!.push({ index, line, bytes });
    }
    let away: Unavailable | undefined;
    for (const [type, lines] of byType) {
      while (lines.length) {
        let [count, bytes] = [0, 0];
        while (count < Math.min(lines.length, BULK_LINES) && (count === 0 || bytes + lines[count]!.bytes <= BULK_BYTES)) {
          bytes += lines[count++]!.bytes;
        }
        const chunk = lines.splice(0, count);
        // The patience is over: the rest is not sent.
        const answers = away ? chunk.map(() => copy(away!, false)) : await this.#bulk(type, chunk.map(({ line }) => line));
        chunk.forEach(({ index }, place) => (outcomes[index] = answers[place]!));
        away ??= answers.find((answer) => answer instanceof Unavailable);
      }
    }
    return outcomes;
  }

  /** Cancels a task. One that runs is asked to stop. @throws NotFound, Conflict if it has ended */
  async cancel(type: string, id: string): Promise<{ outcome: "cancelled" | "running" }> {
    return jsonOf(await this.#ask("DELETE", pathOf(type, id)));
  }

  /** Moves a scheduled task to another time. */
  reschedule(type: string, id: string, when: { after: Duration } | { at: Date | number | string }): Promise<Changed> {
    const { delay, at } = lineOf(null, when);
    return this.#change("POST", `${pathOf(type, id)}/reschedule`, { query: { delay, at } as Record<string, string> });
  }

  /** Makes a scheduled task due now. */
  runNow(type: string, id: string): Promise<Changed> {
    return this.#change("POST", `${pathOf(type, id)}/run-now`);
  }

  /** Replaces the message of a scheduled task. */
  update(type: string, id: string, message: unknown): Promise<Changed> {
    const { body, contentType } = encoded(message);
    const headers: Record<string, string> = contentType ? { "content-type": contentType } : {};
    return this.#change("PUT", `${pathOf(type, id)}/message`, { body, headers });
  }

  /** A task; null if it is unknown. */
  async find<M = unknown>(type: string, id: string): Promise<Task<M> | null> {
    const answer = await orNull(this.#ask("GET", pathOf(type, id)));
    return answer && shown<Task<M>>(jsonOf<Schemas["TaskView"]>(answer));
  }

  /** Waits for what the handler of a task returns. @throws DelayqError of kind `dead`, `cancelled` or `expired` */
  async reply<R = unknown>(type: string, id: string, { wait = 0, signal }: WaitOptions = {}): Promise<Reply<R>> {
    const path = `${pathOf(type, id)}/reply`;
    const end = now() + millis(wait);
    for (;;) {
      const left = Math.round(Math.min(LONGEST_WAIT, Math.max(0, end - now())));
      const answer = await this.#ask("GET", path, { query: { wait: left }, extra: left, signal });
      if (answer.status === 204) return { state: "done" };
      if (answer.status === 202 && now() >= end) return { state: "pending" };
      const contentType = answer.headers.get("content-type") ?? "application/octet-stream";
      if (answer.status === 200) return { state: "done", reply: decoded(answer.body, contentType) as R };
      await sleep(backoff(0), signal);
    }
  }

  /** Sends tasks, and one more that follows once all of them have ended. After a lost answer send all of it again. */
  async sendBatch(name: string, batch: { tasks: readonly NewTask[]; then: NewTask; waitForDead?: boolean }): Promise<BatchReceipt> {
    const line = ({ type, message, ...options }: NewTask): Line => ({ ...lineOf(message, options), type });
    const json = { tasks: batch.tasks.map(line), then: line(batch.then), wait_for_dead: batch.waitForDead };
    return view(jsonOf<object>(await this.#ask("PUT", `/batches/${part(name)}`, { json, extra: LARGE })));
  }

  /** How far a batch is; null if it is unknown. */
  async batch(name: string): Promise<BatchState | null> {
    const answer = await orNull(this.#ask("GET", `/batches/${part(name)}`));
    return answer && view(jsonOf<object>(answer));
  }

  /** Cancels the tasks of a batch that have not ended; nothing follows then. */
  async cancelBatch(name: string): Promise<{ matched: number; changed: number; running: number }> {
    return view(jsonOf<object>(await this.#ask("DELETE", `/batches/${part(name)}`, { extra: LARGE })));
  }

  /** Declares a recurring task, or changes it. `every`: five fields of cron, or an interval such as `15m`. */
  async setRecurring(
    id: string,
    task: Pick<NewTask, "type" | "message" | "headers" | "group"> & { every: string; zone?: string; paused?: boolean },
  ): Promise<Recurring> {
    const { type, every, zone, paused, message, headers, group } = task;
    const { message: text, message_base64, headers: all } = lineOf(message, { headers });
    const json = { type, every, zone, paused, message: text, message_base64, headers: all, group };
    return shown(jsonOf<Schemas["RecurringView"]>(await this.#ask("PUT", `/recurring/${part(id)}`, { json })));
  }

  /** Cancels the waiting occurrence, and sends no further ones until it is resumed. */
  async pauseRecurring(id: string): Promise<Recurring> {
    return shown(jsonOf(await this.#ask("POST", `/recurring/${part(id)}/pause`)));
  }

  async resumeRecurring(id: string): Promise<Recurring> {
    return shown(jsonOf(await this.#ask("POST", `/recurring/${part(id)}/resume`)));
  }

  /** Removes it with its waiting occurrence. False if there was none. */
  async removeRecurring(id: string): Promise<boolean> {
    return (await orNull(this.#ask("DELETE", `/recurring/${part(id)}`))) !== null;
  }

  async listRecurring(): Promise<Recurring[]> {
    const all: Recurring[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = jsonOf<Schemas["RecurringList"]>(await this.#ask("GET", "/recurring", { query: { cursor, limit: 128 } }));
      all.push(...page.recurring.map((one) => shown<Recurring>(one)));
      cursor = page.next ?? null;
    }
    return all;
  }

  /** The ended lives of a task, latest first. A server without a history knows only the last ones. */
  async history(type: string, id: string): Promise<Life[]> {
    const answer = await orNull(this.#ask("GET", `${pathOf(type, id)}/history`));
    return answer ? jsonOf<{ lives: object[] }>(answer).lives.map((life) => view<Life>(life)) : [];
  }

  /** Declares what is done with tasks of a type. Its result sends such tasks. */
  task<M = unknown>(type: string, handler: Handler<M>): TaskType<M>;
  task<M = unknown>(type: string, options: WorkOptions<M> & { schema: Schema<M> }, handler: Handler<M>): TaskType<M>;
  task(type: string, options: WorkOptions<Uint8Array> & { raw: true }, handler: Handler<Uint8Array>): TaskType<Uint8Array>;
  task<M = unknown>(type: string, options: WorkOptions<M>, handler: Handler<M>): TaskType<M>;
  task<M>(type: string, options: WorkOptions<M> | Handler<M>, handler?: Handler<M>): TaskType<M> {
    if (this.#served.has(type)) throw new TypeError(`the type ${type} has a handler already`);
    const served = typeof options === "function" ? Crew.served(type, {}, options) : Crew.served(type, options, handler!);
    this.#served.set(type, served);
    this.#crew?.serve(served);
    return { type, send: (message, sendOptions) => this.send(type, message, sendOptions) };
  }

  /** Runs a function around every attempt, such as for a log or a database transaction. The first one is the outermost. */
  around(around: Around): void {
    this.#around.push(around);
  }

  /** Starts to work on the declared tasks. `run` does so for a whole program. */
  start(): void {
    this.#crew ??= this.crew();
    for (const served of this.#served.values()) this.#crew.serve(served);
  }

  /** Claims no more, lets handlers finish for `grace`, and gives the rest back. */
  async stop(grace?: Duration): Promise<void> {
    const crew = this.#crew;
    await crew?.stop(grace === undefined ? this.#grace : millis(grace));
    if (this.#crew === crew) this.#crew = undefined;
  }

  /** Works until SIGTERM or SIGINT, then stops. A second signal ends the process at once. */
  async run(): Promise<void> {
    if (this.#served.size === 0) throw new TypeError("there is nothing to work on: declare a task with app.task(..)");
    this.start();
    await new Promise<void>((resolve) => {
      let signals = 0;
      const stop = (_: string, number: number): void => (signals++ ? process.exit(128 + number) : resolve());
      process.on("SIGTERM", stop).on("SIGINT", stop);
    });
    await this.stop();
    // A handler that ignored the signal must not keep the process.
    setTimeout(() => process.exit(), 1000).unref();
  }

  /** @internal */
  crew(): Crew {
    return new Crew(this.#place, this.#around, this.#options.log ?? console, (type, message, options) => ({
      ...lineOf(message, options, this.#isTraced(options)),
      type,
    }));
  }

  /** @internal */
  servedTypes(): ReadonlyMap<string, Served> {
    return this.#served;
  }

  /** A task with an id of its own is recognised by its headers, too, so that it goes without. */
  #isTraced({ id }: SendOptions): boolean {
    return id === undefined || this.#options.traceOwnIds === true;
  }

  #ask(method: string, path: string, call?: Parameters<typeof ask>[3]): Promise<Answer> {
    return ask(this.#place, method, path, call);
  }

  async #change(method: string, path: string, call?: Parameters<typeof ask>[3]): Promise<Changed> {
    return { outcome: "changed", ...view<{ dueAt: Date }>(jsonOf<object>(await this.#ask(method, path, call))) };
  }

  async #line(message: unknown, options: SendOptions): Promise<Line> {
    await tracingReady;
    const line = lineOf(message, options, this.#isTraced(options));
    return { ...line, id: line.id ?? randomBytes(16).toString("hex") };
  }

  async #create<R>(type: string, line: Line, signal?: AbortSignal): Promise<Receipt<R>> {
    const { id, headers: { "content-type": contentType, ...named } = {}, message, message_base64, ...query } = line;
    const isPlain = Object.entries(named).every(([name, value]) => PLAIN.test(name) && VISIBLE.test(value));
    if (!isPlain || id === "." || id === "..") {
      const [answer] = await this.#bulk(type, [line]);
      if (answer instanceof DelayqError) throw answer;
      return answer as Receipt<R>;
    }
    const headers = Object.fromEntries(Object.entries(named).map(([name, value]) => [`delayq-header-${name}`, value]));
    if (contentType) headers["content-type"] = contentType;
    const body = bodyOf({ message, message_base64 });
    const options = query as Record<string, string>;
    return view(jsonOf<object>(await this.#ask("PUT", pathOf(type, id!), { query: options, body, headers, signal })));
  }

  async #bulk(type: string, lines: Line[]): Promise<(Receipt | DelayqError)[]> {
    const outcomes: (Receipt | DelayqError)[] = [];
    const until = now() + this.#place.patience;
    const failed = (index: number, error: DelayqError): void => {
      const before = outcomes[index] as Partial<DelayqError> | undefined;
      outcomes[index] = copy(error, error.isInDoubt || before?.isInDoubt === true);
    };
    for (let [tries, open] = [0, [...lines.keys()]]; ; tries++) {
      const body = open.map((index) => JSON.stringify(lines[index])).join("\n");
      const headers = { "content-type": "application/x-ndjson" };
      try {
        const call = { body, headers, extra: LARGE, until: () => 0 };
        const said = new TextDecoder().decode((await this.#ask("POST", `/types/${part(type)}/bulk`, call)).body).split("\n");
        open.forEach((index, place) => {
          const { line: _, problem, ...accepted } = JSON.parse(said[place] || CUT_OFF) as Schemas["LineOutcome"];
          if (problem) failed(index, failure(problem));
          else outcomes[index] = view<Receipt>(accepted);
        });
      } catch (error) {
        if (!(error instanceof DelayqError)) throw error;
        for (const index of open) failed(index, error);
      }
      open = open.filter((index) => (outcomes[index] as Partial<DelayqError>).isRepeatable);
      const wait = Math.max(backoff(tries), ...open.map((index) => (outcomes[index] as DelayqError).retryAfter ?? 0));
      if (!open.length || now() + wait >= until) return outcomes;
      await sleep(wait);
    }
  }
}

function copy(error: DelayqError, isInDoubt: boolean): DelayqError {
  const { kind: type, title, status, detail, isRepeatable: is_repeatable, retryAfter } = error;
  return failure({ type, title, status, detail, is_repeatable, retry_after: retryAfter && retryAfter / 1000, isInDoubt });
}

/** A part of a path. */
function part(text: string): string {
  if (/^\.{0,2}$/.test(text)) {
    const detail = `${JSON.stringify(text)} cannot be part of the address of a request: use another name`;
    throw new InvalidInput({ type: "urn:delayq:problem:bad-request", status: 400, detail });
  }
  return encodeURIComponent(text);
}

/** The path of a task. */
function pathOf(type: string, id: string): string {
  return `/types/${part(type)}/tasks/${part(id)}`;
}

/** An answer with a decoded message. */
function shown<T>(answer: Schemas["MessageView"] & { headers: Record<string, string> }): T {
  const { message: _, message_base64: __, ...rest } = answer;
  const body = bodyOf(answer);
  return { ...view<object>(rest), ...(body !== undefined && { message: decoded(body, answer.headers["content-type"]) }) } as T;
}

/** Null if the server knows no such thing. */
async function orNull(answer: Promise<Answer>): Promise<Answer | null> {
  return answer.catch((error: unknown) => {
    if (error instanceof NotFound) return null;
    throw error;
  });
}
