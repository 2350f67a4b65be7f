import { setMaxListeners } from "node:events";
import { Context } from "./context.js";
import { Dead, DelayqError, failure, Later, LockLost, RetryAfter, Stopped } from "./errors.js";
import { Heartbeat, type Beat } from "./heartbeat.js";
import { ask, jsonOf, type Call, type Place } from "./http.js";
import { readMessage, type Schema } from "./schema.js";
import { bodyOf, type Line, type SendOptions } from "./task.js";
import { backoff, millis, now, sleep, type Duration } from "./time.js";
import { tracingReady, traced } from "./tracing.js";
import type { components } from "./wire.js";

type Schemas = components["schemas"];
/** A claimed task. @internal */
export type Claimed = Schemas["ClaimedView"];
type Ending = Partial<Schemas["EndingForm"]> & Pick<Schemas["EndingForm"], "end">;

/** Does the work. What it returns is the reply; null and undefined are none. */
export type Handler<M> = (message: M, cx: Context) => unknown;
/** Runs around every attempt: it calls `next`, which rejects if the attempt fails. */
export type Around = (cx: Context, next: () => Promise<unknown>) => Promise<unknown>;

/** How failed attempts are repeated. */
export interface RetryOptions {
  /** Attempts after which the task is dead, the first included; default 5. */
  max?: number;
  /** The wait before the second attempt, doubled each time; default 1 s. Each is up to 10 % shorter or longer. */
  wait?: Duration;
  /** The longest wait; default 10 min. */
  maxWait?: Duration;
  /** All waits are equal. */
  fixed?: boolean;
}

export interface WorkOptions<M = unknown> {
  /** Handlers that run at a time in this process; default 1. */
  concurrency?: number;
  /** How long a task stays locked after its worker has died; default 60 s. Locks are extended while a handler runs. */
  lock?: Duration;
  /** Without it, the policy of the type on the server. */
  retry?: RetryOptions;
  /** Checks and decodes the message: zod, valibot or any other Standard Schema. */
  schema?: Schema<M>;
  /** The handler gets the bytes of the message. */
  raw?: boolean;
}

/** A type with its handler. @internal */
export interface Served {
  type: string;
  concurrency: number;
  lock: number;
  retry?: { max: number; wait: number; maxWait: number; fixed: boolean };
  read: (task: Claimed) => Promise<unknown>;
  handler: Handler<never>;
}

type Log = Pick<Console, "warn" | "error">;
type MakeLine = (type: string, message: unknown, options: SendOptions) => Line;

const MOST_CLAIMED = 128;
const CLAIM_WAIT = 30_000;
const ERROR_LENGTH = 2000;
/** How long handlers have after the stop signal, and the last requests after that. */
const STOP_WAIT = 2000;
const LAST_WAIT = 5000;
/** How often it is looked whether the event loop stands still. */
const TICK = 250;

/** One attempt of a task. */
class Attempt {
  readonly #stops = { any: new AbortController(), cancelled: new AbortController(), lost: new AbortController() };
  #isOver = false;
  #giveUp = (): void => {};
  /** The end of the lock, by the monotonic clock. */
  lockedUntil: number;

  constructor(readonly crew: Crew, readonly served: Served, readonly task: Claimed, age = 0) {
    this.lockedUntil = now() + served.lock - age;
    setMaxListeners(0, this.#stops.any.signal);
  }

  beat(beat: Beat): void {
    if ("left" in beat) this.lockedUntil = now() + beat.left;
    // The end of an attempt that is being reported takes the lock away.
    if (this.#isOver) return;
    if ("lost" in beat) {
      this.crew.log.warn(`delayq: the lock of ${this.task.type} ${this.task.id} is lost: ${beat.lost}`);
      this.#stop("lost");
    } else if (beat.isCancelled) this.#stop("cancelled");
  }

  /** Tells the handler that the worker stops. */
  end(): void {
    this.#stop("shutdown");
  }

  /** Gives the task back although its handler has not ended. */
  giveUp(): void {
    this.#giveUp();
  }

  async run(): Promise<void> {
    const ending = await this.#work();
    const isLost = this.#stops.lost.signal.aborted;
    this.#isOver = true;
    if (!isLost) await this.settle(ending);
  }

  #stop(why: Stopped["why"]): void {
    const reason = new Stopped(why);
    if (why !== "shutdown") this.#stops[why].abort(reason);
    this.#stops.any.abort(reason);
  }

  async #work(): Promise<Ending> {
    const { served, task, crew } = this;
    let message: unknown;
    try {
      message = await served.read(task);
    } catch (error) {
      return { end: "dead", error: textOf(`the message cannot be read: ${error instanceof Error ? error.message : error}`) };
    }
    const { any, cancelled, lost } = this.#stops;
    const cx = new Context(task, { any: any.signal, cancelled: cancelled.signal, lost: lost.signal }, crew.makeLine);
    const given = new Promise<Ending>((resolve) => (this.#giveUp = () => resolve({ end: "release" })));
    const handle = async (): Promise<unknown> => (served.handler as Handler<unknown>)(message, cx);
    const next = crew.around.reduceRight<() => Promise<unknown>>((inner, around) => async () => around(cx, inner), handle);
    const worked = traced(cx, next).then((reply) => this.#done(reply, cx.follows)).catch((error) => this.#failed(error));
    return Promise.race([worked, given]);
  }

  #done(reply: unknown, then: Line[]): Ending {
    if (reply === undefined || reply === null) return { end: "done", then };
    if (reply instanceof Uint8Array) {
      if (then.length) throw new TypeError("a reply of bytes cannot go with follow-ups");
      return { end: "done", reply };
    }
    return { end: "done", then, reply: JSON.parse(JSON.stringify(reply) ?? "null") };
  }

  #failed(error: unknown): Ending {
    if (this.#stops.cancelled.signal.aborted) return { end: "fail", error: "cancelled" };
    if (error instanceof Later) return { end: "release", after: millis(error.after) };
    if (error instanceof Dead) return { end: "dead", error: textOf(error.message) };
    if (error instanceof RetryAfter) {
      const max_attempts = this.served.retry?.max;
      return { end: "fail", error: textOf(error.message), after: millis(error.after), max_attempts };
    }
    return this.#stops.any.signal.aborted ? { end: "release" } : this.#retried(error);
  }

  #retried(error: unknown): Ending {
    const { retry } = this.served;
    this.crew.log.warn(`delayq: ${this.task.type} ${this.task.id} (attempt ${this.task.attempt}) failed:`, error);
    const ending: Ending = { end: "fail", error: textOf(error), max_attempts: retry?.max };
    if (!retry) return ending;
    const wait = retry.fixed ? retry.wait : Math.min(retry.maxWait, retry.wait * 2 ** Math.min(this.task.attempt - 1, 40));
    return { ...ending, after: Math.round(this.crew.isVirtual ? wait : wait * (0.9 + Math.random() / 5)) };
  }

  /** Reports the end until the answer is certain. */
  async settle(ending: Ending): Promise<void> {
    const { crew, task } = this;
    const name = `${task.type} ${task.id}`;
    const until = (): number => this.lockedUntil + crew.place.patience;
    try {
      await this.#report(ending, until);
    } catch (error) {
      const isRefused = error instanceof DelayqError && !error.isRepeatable && !(error instanceof LockLost);
      if (error instanceof LockLost) crew.log.warn(`delayq: the end of ${name} does not count, its lock is lost`);
      else if (isRefused && ending.end !== "fail") {
        crew.log.error(`delayq: the end of ${name} is refused: ${error.detail}`);
        await this.settle(this.#retried(`its end was refused: ${error.detail}`)); // such as a reply that is too long
      } else crew.log.error(`delayq: it is unknown whether the end of ${name} was stored: ${error}`);
    }
  }

  async #report(ending: Ending, until: () => number): Promise<void> {
    const { id, lock, type } = this.task;
    const { place } = this.crew;
    const path = `/types/${encodeURIComponent(type)}`;
    if (ending.reply instanceof Uint8Array) {
      const call = { query: { lock }, body: ending.reply, until };
      await ask(place, "POST", `${path}/tasks/${encodeURIComponent(id)}/done`, call);
      return;
    }
    const { then, ...end } = ending;
    const json = [{ id, lock, ...end, ...(then?.length && { then }) }];
    const check: Call["check"] = (answer) => {
      const [said] = jsonOf<Schemas["One"][]>(answer);
      if (said?.outcome === "lock_lost") throw new LockLost({ type: "lock-lost", status: 409 });
      if (said?.outcome === "failed") throw failure(said.problem ?? {});
    };
    await ask(place, "POST", `${path}/settle`, { json, until, check });
  }
}

/** The error of an attempt, for people to read. */
function textOf(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(0, ERROR_LENGTH);
}

/** Those who work: a loop of claims for each type. @internal */
export class Crew {
  isVirtual = false;
  readonly #loops = new Map<string, Promise<void>>();
  readonly #running = new Map<number, { attempt: Attempt; ended: Promise<void> }>();
  readonly #counts = new Map<Served, number>();
  readonly #stopping = new AbortController();
  readonly #claims = new AbortController();
  #wake: (() => void)[] = [];
  #heartbeat?: Heartbeat;
  #lastKey = 0;
  #ticker?: NodeJS.Timeout;
  #tickedAt = now();
  #stall = { endedAt: Number.NEGATIVE_INFINITY, span: 0 };

  constructor(readonly place: Place, readonly around: Around[], readonly log: Log, readonly makeLine: MakeLine) {
    // Each type listens.
    setMaxListeners(0, this.#stopping.signal, this.#claims.signal);
  }

  /** @throws RangeError, TypeError if an option is not valid */
  static served<M>(type: string, options: WorkOptions<M>, handler: Handler<M>): Served {
    const { concurrency = 1, lock = 60_000, retry, schema, raw = false } = options;
    const served: Served = {
      type,
      concurrency,
      lock: millis(lock),
      read: async (task) => {
        const body = bodyOf(task) ?? "";
        const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
        return raw ? bytes : readMessage(bytes, task.headers["content-type"] ?? "", schema);
      },
      handler: handler as Handler<never>,
    };
    if (typeof handler !== "function") throw new TypeError(`${type}: the handler is missing`);
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new RangeError("concurrency: a whole number, at least 1");
    if (served.lock < 1000 || served.lock > 86_400_000) throw new RangeError("lock: 1 s to 24 h");
    if (retry) {
      const { max = 5, wait = 1000, maxWait = 600_000, fixed = false } = retry;
      if (!Number.isInteger(max) || max < 1) throw new RangeError("retry.max: a whole number, at least 1");
      served.retry = { max, wait: millis(wait), maxWait: millis(maxWait), fixed };
    }
    return served;
  }

  serve(served: Served): void {
    this.#ticker ??= setInterval(() => {
      const span = this.#unticked();
      if (span > TICK) this.#stall = { endedAt: now(), span };
      this.#tickedAt = now();
    }, TICK).unref();
    if (!this.#loops.has(served.type)) this.#loops.set(served.type, this.#loop(served));
  }

  /** Runs an attempt for a test: without a lock that is extended, and with exact waits. */
  async perform(served: Served, task: Claimed): Promise<void> {
    this.isVirtual = true;
    await new Attempt(this, served, task).run();
  }

  async stop(grace: number): Promise<void> {
    this.#stopping.abort();
    // An answer that is there already is read before the connections of the claims are closed.
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    this.#claims.abort();
    const attempts = (): Attempt[] => [...this.#running.values()].map(({ attempt }) => attempt);
    const ended = (async () => {
      await Promise.all(this.#loops.values());
      await Promise.all([...this.#running.values()].map((one) => one.ended));
    })();
    if (!(await within(ended, grace))) {
      for (const attempt of attempts()) attempt.end();
      if (!(await within(ended, STOP_WAIT))) {
        for (const attempt of attempts()) attempt.giveUp();
        await within(ended, LAST_WAIT);
      }
    }
    clearInterval(this.#ticker);
    await this.#heartbeat?.end();
  }

  #unticked(): number {
    return Math.max(0, now() - this.#tickedAt - TICK);
  }

  /** How old an answer may be that has just been read: a handler blocked the event loop, or the process was stopped. */
  #age(asked: number): number {
    const stall = now() - this.#stall.endedAt < 100 ? this.#stall.span : 0;
    return Math.min(now() - asked, Math.max(this.#unticked(), stall));
  }

  async #loop(served: Served): Promise<void> {
    this.#heartbeat ??= new Heartbeat(
      this.place,
      (beat) => this.#running.get(beat.key)?.attempt.beat(beat),
      (text) => this.log.warn(`delayq: ${text}`),
    );
    await Promise.all([tracingReady, this.#heartbeat.ready]);
    const { type, lock } = served;
    const stopping = this.#stopping.signal;
    for (let failures = 0; !stopping.aborted; ) {
      const free = Math.min(MOST_CLAIMED, served.concurrency - (this.#counts.get(served) ?? 0));
      if (free < 1) {
        await new Promise<void>((resolve) => this.#wake.push(resolve));
        continue;
      }
      const began = now();
      let wait = 0;
      try {
        const query = { limit: free, wait: CLAIM_WAIT, lock_for: lock };
        const call: Call = { query, extra: CLAIM_WAIT, signal: this.#claims.signal, until: () => 0 };
        const answer = await ask(this.place, "POST", `/types/${encodeURIComponent(type)}/claim`, call);
        const { tasks } = jsonOf<Schemas["Claimed"]>(answer);
        if (failures) this.log.warn(`delayq: tasks of ${type} are claimed again`);
        failures = 0;
        for (const task of tasks) this.#begin(served, task, began);
        // A server that stops answers at once.
        if (!tasks.length && now() - began < 1000) wait = 500;
      } catch (error) {
        if (stopping.aborted) break;
        if (failures++ === 0) this.log.error(`delayq: tasks of ${type} cannot be claimed, it is tried again: ${error}`);
        wait = (error instanceof DelayqError && error.retryAfter) || backoff(failures);
      }
      if (wait) await sleep(wait, stopping).catch(() => {});
    }
  }

  #begin(served: Served, task: Claimed, asked: number): void {
    const age = this.#age(asked);
    const attempt = new Attempt(this, served, task, age);
    const key = ++this.#lastKey;
    const { type, id, lock } = task;
    this.#heartbeat!.take({ hold: { key, type, id, lock, span: served.lock, age } });
    this.#counts.set(served, (this.#counts.get(served) ?? 0) + 1);
    // Claimed although the worker stops, or read so late that the lock may be lost.
    const isGivenBack = this.#stopping.signal.aborted || age > served.lock / 3;
    const ended = isGivenBack ? attempt.settle({ end: "release" }) : attempt.run();
    this.#running.set(key, { attempt, ended: ended.then(() => this.#ended(key, served)) });
  }

  #ended(key: number, served: Served): void {
    this.#heartbeat?.take({ free: key });
    this.#running.delete(key);
    this.#counts.set(served, this.#counts.get(served)! - 1);
    for (const wake of this.#wake.splice(0)) wake();
  }
}

/** True if it has ended within this time. */
async function within(ended: Promise<void>, ms: number): Promise<boolean> {
  const over = new AbortController();
  const late = sleep(ms, over.signal).then(() => false, () => false);
  const isEnded = await Promise.race([ended.then(() => true), late]);
  over.abort();
  return isEnded;
}
