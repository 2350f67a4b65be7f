import { App, type AppOptions, type WaitOptions } from "./app.js";
import type { Line, Reply, Task } from "./task.js";
import { millis, type Duration } from "./time.js";
import type { components } from "./wire.js";

type Schemas = components["schemas"];
type Ending = Schemas["EndingForm"];
/** A task of the test double, with what the server keeps of it beside its view. */
type Kept = Schemas["TaskView"] & {
  type: string; key: string; fence: number; failures: number; due_at: number; submitted_at: number;
  again?: Line; reply?: { body: Uint8Array | string; contentType: string }; batch?: string;
};
type Batch = { name: string; state: "waiting" | "cancelled" | "over"; members: Kept[]; then: Line };
type Series = Pick<Schemas["RecurringView"], "id" | "type" | "every" | "paused" | "since" | "headers" | "next_at">;

const NAME = /^[A-Za-z0-9._:-]{1,100}$/;
const ID = /^[!-~]{1,128}$/;
const LIMIT = 262_144;
const YEARS = 10 * 365 * 86_400_000;
const ENDED = ["done", "cancelled", "expired"];

class Refusal extends Error {
  constructor(readonly status: number, readonly kind: string, message: string) {
    super(message);
  }
}
const refuse = (status: number, kind: string, message: string): never => {
  throw new Refusal(status, kind, message);
};
const problemOf = ({ status, kind, message }: Refusal): Schemas["Problem"] => {
  return { type: `urn:delayq:problem:${kind}`, title: kind, status, detail: message, is_repeatable: false };
};
const bad = (message: string): never => refuse(400, "bad-request", message);

/** A server in memory, with a clock that only `advance` moves. */
class Store {
  readonly tasks = new Map<string, Kept>();
  readonly batches = new Map<string, Batch>();
  readonly series = new Map<string, Series & Schemas["MessageView"]>();
  readonly lives: (Kept & { outcome: string; ended_at: number })[] = [];
  #fences = 0;

  constructor(public clock: number) {}

  /** Answers a request as the server does. */
  async answer(input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
    try {
      const url = new URL(String(input));
      const path = url.pathname.split("/").slice(3).map(decodeURIComponent);
      const body = init.body == null ? "" : typeof init.body === "string" ? init.body : (init.body as Uint8Array);
      const query = Object.fromEntries(url.searchParams) as Record<string, string>;
      return this.#route(init.method ?? "GET", path, query, body, new Headers(init.headers));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return Response.json(problemOf(error), { status: error.status });
    }
  }

  #route(method: string, path: string[], query: Record<string, string>, body: string | Uint8Array, headers: Headers): Response {
    const [area, name = "", kind, id = "", what] = path;
    const json = (): any => JSON.parse(String(body));
    if (area === "batches") return this.#batch(method, name, json);
    if (area === "recurring") return this.#recurring(method, name, kind, json);
    if (!NAME.test(name)) bad(`invalid task type ${JSON.stringify(name)}: use 1 to 100 of A-Z a-z 0-9 . _ - :`);
    if (kind === "bulk") {
      const lines = String(body).split("\n").map((text, index) => {
        try {
          return { line: index + 1, ...this.create(name, JSON.parse(text)) };
        } catch (error) {
          return { line: index + 1, problem: problemOf(error as Refusal) };
        }
      });
      return new Response(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    }
    if (kind === "settle") return Response.json(json().map((ending: Ending) => this.settle(name, ending)));
    if (!ID.test(id)) bad("an id is 1 to 128 visible ASCII characters");
    if (method === "PUT" && !what) {
      const all = [...headers].map(([key, value]) => [key.replace(/^delayq-header-/, ""), value]);
      const { authorization: _, ...named } = Object.fromEntries(all) as Record<string, string>;
      return Response.json(this.create(name, { ...query, id, headers: named, ...messageOf(body) } as Line), { status: 201 });
    }
    const task = this.tasks.get(`${name}/${id}`) ?? refuse(404, "not-found", `there is no task ${id} of type ${name}`);
    if (what === "done") return Response.json(this.settle(name, { id, lock: query.lock!, end: "done" }, body));
    if (what === "history") return Response.json({ lives: this.lives.filter((life) => life.id === id && life.type === name) });
    if (what === "reply") return this.#reply(task);
    if (method === "GET") return Response.json(task);
    if (method === "DELETE") return Response.json({ outcome: this.#cancel(task) });
    if (task.state === "running") refuse(409, "running", `${id} of ${name} runs: nothing was changed`);
    if (task.state !== "scheduled") refuse(409, "finished", `${id} of ${name} is ${task.state}: nothing was changed`);
    if (what === "message") Object.assign(task, { message: undefined, message_base64: undefined }, messageOf(body));
    else task.at = what === "run-now" ? this.clock : this.#due(query) ?? bad("give delay or at");
    task.due_at = task.at;
    return Response.json({ due_at: task.due_at });
  }

  #due({ delay, at }: { delay?: string | number | null; at?: string | number | null }): number | undefined {
    if (delay != null && at != null) bad("delay and at exclude each other");
    if (delay != null) return this.clock + span(delay);
    return at == null ? undefined : Math.max(this.clock, time(at));
  }

  create(type: string, line: Line, batch?: string): Schemas["Accepted"] {
    const { debounce, max_wait, throttle, on_conflict, expires_after, expires_at, again_if_running } = line;
    if (!NAME.test(type)) bad(`invalid task type ${JSON.stringify(type)}: use 1 to 100 of A-Z a-z 0-9 . _ - :`);
    if (!ID.test(line.id ?? "")) bad("an id is 1 to 128 visible ASCII characters");
    if (debounce != null && throttle != null) bad("debounce and throttle exclude each other");
    const [paced] = [debounce != null && "debounce", throttle != null && "throttle"].filter(Boolean);
    if (paced && (line.delay ?? line.at ?? on_conflict) != null) bad(`${paced} and delay, at or on_conflict exclude each other`);
    if (max_wait != null && debounce == null) bad("max_wait: it is the limit of a debounce, so give debounce as well");
    if (debounce != null && max_wait == null) bad("debounce: give its longest wait, such as max_wait=1h");
    if (debounce != null && span(debounce) > span(max_wait!)) bad("max_wait is shorter than the debounce");
    if (expires_after != null && expires_at != null) bad("expires_after and expires_at exclude each other");
    const isConflictKnown = ["reject", "keep", "replace"].includes(on_conflict ?? "reject");
    if (!isConflictKnown) bad(`on_conflict=${on_conflict}: use reject, keep or replace`);
    const { message, message_base64, group, project } = line;
    if ((message ?? message_base64 ?? "").length > LIMIT) refuse(413, "limit-exceeded", `the message is larger than ${LIMIT} bytes`);
    const headers = { ...line.headers, ...(group != null && { group }), ...(project != null && { project }) };
    let due = this.#due(line) ?? this.clock;
    let id = line.id!;
    if (throttle != null) {
      due = (Math.floor(this.clock / span(throttle)) + 1) * span(throttle);
      id = `${id}@${new Date(due).toISOString()}`;
    }
    const sorted = Object.entries(headers).sort(([a], [b]) => (a < b ? -1 : 1));
    const key = JSON.stringify([message, message_base64, sorted, expires_after, expires_at, line.delay, line.at]);
    const old = this.tasks.get(`${type}/${id}`);
    const exists = (): Schemas["Accepted"] => ({ id, outcome: "already_exists", state: old!.state, durability: "memory" });
    const isSame = old?.key === key;
    if (old?.state === "running") {
      if (again_if_running === true || String(again_if_running) === "true") {
        old.again = { ...line, id, again_if_running: null };
        return { id, outcome: "runs_again", due_at: due, durability: "memory" };
      }
      return isSame || on_conflict === "keep" ? exists() : conflict(type, id, old.state);
    }
    const isEnded = old !== undefined && ENDED.includes(old.state);
    if (isEnded && isSame && again_if_running == null) return exists();
    let submitted = this.clock;
    let isReplaced = false;
    if (old && !isEnded) {
      if (debounce != null) {
        if (old.state === "scheduled" && old.attempt === 0) submitted = old.submitted_at;
      } else if (throttle != null || on_conflict === "keep" || (isSame && (on_conflict !== "replace" || line.at != null))) return exists();
      else if (on_conflict !== "replace") return conflict(type, id, old.state);
      isReplaced = true;
    }
    if (debounce != null) due = Math.min(this.clock + span(debounce), submitted + span(max_wait!));
    const expiry = expires_at != null ? time(expires_at) : expires_after != null ? due + span(expires_after) : undefined;
    const task: Kept = {
      type, id, key, headers, message, message_base64, batch, state: "scheduled", at: due, due_at: due, submitted_at: submitted,
      ...(expiry !== undefined && { expires_at: expiry }), attempt: 0, failures: 0, fence: 0, cancel_requested: false,
    };
    this.tasks.set(`${type}/${id}`, task);
    return { id, outcome: isReplaced ? "replaced" : "accepted", due_at: due, durability: "memory" };
  }

  /** The next task of these types that is due until then. */
  next(types: ReadonlySet<string>, until: number): Kept | undefined {
    const due = [...this.tasks.values()].filter((one) => one.state === "scheduled" && one.at <= until && types.has(one.type));
    return due.sort((a, b) => a.at - b.at)[0];
  }

  /** Locks a task; undefined if it has expired. */
  claim(task: Kept): Schemas["ClaimedView"] | undefined {
    this.clock = Math.max(this.clock, task.at);
    if (task.expires_at != null && this.clock >= task.expires_at) return void this.#end(task, "expired");
    Object.assign(task, { state: "running", attempt: task.attempt + 1, fence: ++this.#fences });
    const series = this.series.get(task.headers["delayq-recurring"] ?? "");
    if (series) this.#occur(series);
    return { ...task, lock: `${task.fence}-0`, lock_until: this.clock };
  }

  settle(type: string, ending: Ending, bytes?: Uint8Array | string): Schemas["One"] {
    const { id, lock, end, error, after, max_attempts, reply, then = [] } = ending;
    const task = this.tasks.get(`${type}/${id}`);
    if (task?.state !== "running" || lock !== `${task.fence}-0`) return { id, outcome: "lock_lost" };
    const again = (wait: number): void => {
      task.state = "scheduled";
      task.at = task.due_at = this.clock + wait;
    };
    if (error !== undefined) task.last_error = error;
    if (end === "release") task.attempt--;
    if (end === "done") {
      then.forEach((line, index) => {
        this.create(line.type!, { on_conflict: "keep", ...clean(line), id: line.id ?? `${id}+${index}` });
      });
      if (bytes !== undefined) task.reply = { body: bytes, contentType: "application/octet-stream" };
      else if (reply !== undefined) task.reply = { body: JSON.stringify(reply), contentType: "application/json" };
      this.#end(task, "done");
    } else if (end === "dead") this.#end(task, "dead");
    else if (task.cancel_requested) this.#end(task, "cancelled");
    else if (end === "release") again(span(after ?? 0));
    else if (++task.failures >= (max_attempts ?? 5)) this.#end(task, "dead");
    else again(span(after ?? Math.min(600_000, 1000 * 2 ** (task.failures - 1))));
    return { id, outcome: "settled" };
  }

  #end(task: Kept, state: string): void {
    this.lives.unshift({ ...task, outcome: state, ended_at: this.clock });
    Object.assign(task, { state, at: this.clock, ...(state !== "dead" && { message: undefined, message_base64: undefined }) });
    if (task.again && state !== "cancelled") {
      this.tasks.delete(`${task.type}/${task.id}`);
      this.create(task.type, task.again);
    }
    const batch = this.batches.get(task.batch ?? "");
    if (batch?.state !== "waiting" || batch.members.some((one) => !isOver(one))) return;
    batch.state = "over";
    const headers = { ...batch.then.headers, "delayq-batch": JSON.stringify(countsOf(batch)) };
    this.create(batch.then.type!, { delay: 1000, ...clean(batch.then), headers, id: thenId(batch.name) });
  }

  #cancel(task: Kept): string {
    if (task.state === "running") task.cancel_requested = true;
    else if (["done", "expired", "dead"].includes(task.state)) {
      refuse(409, "finished", `${task.id} of ${task.type} has ended: it is ${task.state}`);
    } else if (task.state !== "cancelled") this.#end(task, "cancelled");
    task.again = undefined;
    return task.state === "running" ? "running" : "cancelled";
  }

  #reply({ id, type, state, reply, last_error }: Kept): Response {
    if (state === "dead") refuse(424, "dead", `${id} of ${type} is dead: ${last_error}`);
    if (state === "cancelled" || state === "expired") refuse(410, state, `${id} of ${type} is ${state}`);
    if (state !== "done") return Response.json({ id, outcome: "pending", reply: "" }, { status: 202 });
    if (!reply) return new Response(null, { status: 204 });
    return new Response(reply.body as string, { headers: { "content-type": reply.contentType } });
  }

  #batch(method: string, name: string, json: () => Schemas["BatchForm"]): Response {
    if (method === "PUT") {
      if (!/^[!-~]{1,64}$/.test(name)) bad("a name is 1 to 64 visible ASCII characters");
      const { tasks, then } = json();
      const lines = tasks.map((line, index) => ({ ...clean(line), id: line.id ?? `${name}/${index}` }));
      const ids = lines.map((line) => this.create(line.type!, line, name).id);
      const members = ids.map((id, index) => this.tasks.get(`${lines[index]!.type}/${id}`)!);
      if (!this.batches.has(name)) this.batches.set(name, { name, state: "waiting", members, then });
      return Response.json({ name, ids, then_type: then.type, then_id: thenId(name) }, { status: 201 });
    }
    const batch = this.batches.get(name) ?? refuse(404, "not-found", `there is no batch ${name}`);
    if (method === "GET") return Response.json({ state: batch.state, counts: countsOf(batch), is_exact: true });
    batch.state = "cancelled";
    const open = batch.members.filter((one) => !isOver(one));
    const outcomes = open.map((one) => this.#cancel(one));
    const running = outcomes.filter((one) => one === "running").length;
    return Response.json({ matched: open.length, changed: open.length - running, running });
  }

  #recurring(method: string, id: string, what: string | undefined, json: () => Schemas["RecurringForm"]): Response {
    if (!id) return Response.json({ recurring: [...this.series.values()] });
    if (method === "PUT") {
      const { type, every, zone, paused = false, message, message_base64, headers = {}, group } = json();
      if (!/^(\S+ ){4}\S+$/.test(every) && !(span(every) >= 1000)) bad(`every: ${every} is neither five fields of cron nor an interval`);
      const all = { ...headers, ...(group != null && { group }) };
      const series = { id, type, every, paused, since: this.clock, headers: all, message, message_base64 };
      this.series.set(id, { ...series, ...(zone && { zone }) });
    }
    const series = this.series.get(id) ?? refuse(404, "not-found", `there is no recurring task ${id}`);
    if (method === "POST") series.paused = what === "pause";
    if (method === "DELETE") this.series.delete(id);
    for (const task of this.tasks.values()) {
      if (task.headers["delayq-recurring"] === id && task.state === "scheduled" && !task.attempt) this.#cancel(task);
    }
    if (method === "DELETE") return new Response(null, { status: 204 });
    this.#occur(series);
    return Response.json(series);
  }

  /** Sends the next occurrence of an interval. Those of cron come by `occur` of the app. */
  #occur(series: Series & Schemas["MessageView"], at?: number): void {
    delete series.next_at;
    if (series.paused || (at === undefined && series.every.includes(" "))) return;
    const every = at ?? millis(series.every);
    const due = at ?? (Math.floor(this.clock / every) + 1) * every;
    series.next_at = due;
    const time = new Date(due).toISOString().replace(".000Z", "Z");
    const headers = { ...series.headers, "delayq-recurring": series.id, "delayq-occurrence": time };
    const { message, message_base64 } = series;
    this.create(series.type, { id: `${series.id}@${time}`, at: due, headers, message, message_base64, on_conflict: "replace" });
  }

  occur(id: string): void {
    this.#occur(this.series.get(id) ?? refuse(404, "not-found", `there is no recurring task ${id}`), this.clock);
  }
}

const isOver = (task: Pick<Kept, "state">): boolean => task.state === "dead" || ENDED.includes(task.state);
const thenId = (name: string): string => `${name}+then`;
const conflict = (type: string, id: string, state: string): never =>
  refuse(409, "conflict", `another task ${id} of ${type} is ${state}: use another id, or onConflict keep or replace`);
const messageOf = (body: string | Uint8Array): Line =>
  typeof body === "string" ? { message: body } : { message_base64: Buffer.from(body).toString("base64") };
const clean = (line: Line): Line => Object.fromEntries(Object.entries(line).filter(([, value]) => value != null));
const countsOf = ({ name, members }: Batch) => {
  const count = (state: string): number => members.filter((one) => one.state === state).length;
  const [done, dead, cancelled, expired] = ["done", "dead", "cancelled", "expired"].map(count);
  return { name, total: members.length, done, dead, cancelled, expired, forgotten: 0 };
};

function span(text: string | number): number {
  try {
    const ms = millis(/^\d+$/.test(String(text)) ? Number(text) : text);
    return ms <= YEARS ? ms : bad(`invalid delay: ${text} is beyond the limit of 10 years`);
  } catch (error) {
    return bad(`invalid delay: ${(error as Error).message}`);
  }
}
function time(text: string | number): number {
  const ms = Number.isNaN(Number(text)) ? Date.parse(String(text)) : Number(text);
  if (!(ms > 978_307_200_000)) bad(`${text} is no time, or was before 2001: give milliseconds, or RFC 3339`);
  return ms;
}

/** An app without a server, in a time that only `advance` moves. */
export class TestApp extends App {
  readonly #store: Store;

  constructor(options: Pick<AppOptions, "log" | "traceOwnIds"> & { now?: Date } = {}) {
    const { now = new Date(), ...rest } = options;
    const store = new Store(now.getTime());
    super({ ...rest, url: "http://test.invalid", token: "test", patience: 0, fetch: (url, init) => store.answer(url, init) });
    this.#store = store;
  }

  /** The present time. */
  get now(): Date {
    return new Date(this.#store.clock);
  }

  /** The tasks that are kept, in the order of their sends. */
  async tasks(type?: string): Promise<Task[]> {
    const all = [...this.#store.tasks.values()].filter((one) => type === undefined || one.type === type);
    return (await Promise.all(all.map((one) => this.find(one.type, one.id)))).filter((one) => one !== null);
  }

  /** Moves the time, and runs what is due on the way with the declared handlers. The number of attempts. */
  async advance(length: Duration): Promise<number> {
    const end = this.#store.clock + millis(length);
    const count = await this.#runUntil(end, () => false);
    this.#store.clock = end;
    return count;
  }

  /** Sends an occurrence of a recurring task now. Those of an interval come by `advance`, those of cron only so. */
  occur(id: string): void {
    this.#store.occur(id);
  }

  /** A wait lets the time pass. */
  override async reply<R = unknown>(type: string, id: string, { wait = 0 }: WaitOptions = {}): Promise<Reply<R>> {
    const end = this.#store.clock + millis(wait);
    const isDone = (): boolean => isOver(this.#store.tasks.get(`${type}/${id}`) ?? { state: "done" });
    if (!isDone()) await this.#runUntil(end, isDone);
    if (!isDone()) this.#store.clock = Math.max(end, this.#store.clock);
    return super.reply<R>(type, id);
  }

  /** Handlers run by `advance`. */
  override start(): void {}
  override async run(): Promise<void> {}

  async #runUntil(time: number, isDone: () => boolean): Promise<number> {
    const [served, crew] = [this.servedTypes(), this.crew()];
    let count = 0;
    while (!isDone()) {
      const due = this.#store.next(new Set(served.keys()), time);
      if (!due) break;
      const claimed = this.#store.claim(due);
      if (claimed) await crew.perform(served.get(due.type)!, claimed);
      count += Number(claimed !== undefined);
    }
    return count;
  }
}
