// The driver of the scenario suite: lines of JSON in, lines of JSON out. It only calls the client.
import { createInterface } from "node:readline";
import { App, Dead, DelayqError, Later, RetryAfter, Webhook } from "delayq";

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const failed = (error) =>
  error instanceof DelayqError
    ? { kind: error.kind, status: error.status, is_repeatable: error.isRepeatable, detail: error.detail }
    : { kind: error.name, status: 0, is_repeatable: false, detail: error.message };
const ms = (span) => ({ ms: 1, s: 1000, m: 60_000 })[/[a-z]+$/.exec(span)[0]] * Number.parseFloat(span);
const snake = (value) => {
  if (value instanceof Date) return value.getTime();
  if (Array.isArray(value)) return value.map(snake);
  if (value instanceof DelayqError) return { error: failed(value) };
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([name, one]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    name === "message" || name === "reply" || name === "headers" ? one : snake(one),
  ]));
};
const optionsOf = (line) => ({
  id: line.id, after: line.after, at: line.at, onConflict: line.on_conflict, debounce: line.debounce, maxWait: line.max_wait,
  throttle: line.throttle, expiresAfter: line.expires_after, expiresAt: line.expires_at, group: line.group,
  project: line.project, headers: line.headers, againIfRunning: line.again_if_running,
});
const taskOf = (line) => ({ type: line.type, message: line.message, ...optionsOf(line) });

// What the message of a task may be.
const FIELDS = { do: "string", error: "string", times: "number", for: "string", after: "string", type: "string", id: "string" };
const schema = {
  "~standard": {
    validate(value) {
      if (typeof value !== "object" || value === null || Array.isArray(value)) return { issues: [{ message: "no object" }] };
      if (value.do === undefined) return { issues: [{ message: "it is missing", path: ["do"] }] };
      const wrong = Object.keys(FIELDS).filter((name) => value[name] !== undefined && typeof value[name] !== FIELDS[name]);
      return wrong.length ? { issues: wrong.map((name) => ({ message: `no ${FIELDS[name]}`, path: [name] })) } : { value };
    },
  },
};

let app;
const released = new Map();
const counted = (id) => released.set(id, (released.get(id) ?? 0) + 1).get(id);

async function perform(message, cx) {
  const { times = 0 } = message;
  switch (message.do) {
    case "ok": return undefined;
    case "reply": return message.with;
    case "echo": return message;
    case "fail": if (cx.attempt <= times) throw new Error(message.error); return undefined;
    case "retry_after": if (cx.attempt <= times) throw new RetryAfter(message.after, message.error); return undefined;
    case "dead": throw new Dead(message.error);
    case "later": if (counted(cx.id) <= times) throw new Later(message.after); return undefined;
    case "sleep":
      return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, ms(message.for));
        cx.signal.addEventListener("abort", () => (clearTimeout(timer), reject(cx.signal.reason)));
      });
    // It heeds no signal. That a handler may block the event loop is in the tests of the client.
    case "block": return new Promise((resolve) => setTimeout(resolve, ms(message.for)));
    case "then": cx.followUp(message.type, message.message, { id: message.id }); return undefined;
    case "send": await app.send(message.type, message.message); return undefined;
    default: throw new Error(`there is no ${message.do}`);
  }
}

async function handle(message, cx) {
  const { type, id, attempt, fence, headers, lastError } = cx;
  say({ event: "start", type, id, attempt, fence, headers, last_error: lastError, at: Date.now(), message });
  cx.cancelled.addEventListener("abort", () => say({ event: "cancelled", id }));
  cx.lost.addEventListener("abort", () => say({ event: "lost", id }));
  let how = "raised";
  try {
    const reply = await perform(message, cx);
    how = "returned";
    return reply;
  } finally {
    say({ event: "end", id, how, at: Date.now() });
  }
}

let running;
const calls = {
  app: () => ({}),
  send: (line) => app.send(line.type, line.message, { ...optionsOf(line), wait: line.wait }),
  send_many: (line) => app.sendAll(line.items.map(taskOf)),
  cancel: ({ type, id }) => app.cancel(type, id),
  run_now: ({ type, id }) => app.runNow(type, id),
  find: ({ type, id }) => app.find(type, id),
  reply: async ({ type, id, wait }) => (await app.reply(type, id, { wait })).reply,
  reschedule: ({ type, id, after, at }) => app.reschedule(type, id, after === undefined ? { at } : { after }),
  update: ({ type, id, message }) => app.update(type, id, message),
  batch: ({ name, tasks, then }) => app.sendBatch(name, { tasks: tasks.map(taskOf), then: taskOf(then) }),
  batch_state: ({ name }) => app.batch(name),
  batch_cancel: ({ name }) => app.cancelBatch(name),
  recurring: ({ id, type, every, zone, message }) => app.setRecurring(id, { type, every, zone, message }),
  recurring_remove: async ({ id }) => ({ removed: await app.removeRecurring(id) }),
  recurring_pause: ({ id }) => app.pauseRecurring(id),
  recurring_resume: ({ id }) => app.resumeRecurring(id),
  recurring_list: () => app.listRecurring(),
  history: ({ type, id }) => app.history(type, id),
  work: ({ type, concurrency, lock, retry }) => {
    const { max, wait, max_wait: maxWait, fixed } = retry ?? {};
    app.task(type, { concurrency, lock, schema, ...(retry && { retry: { max, wait, maxWait, fixed } }) }, handle);
    if (running) app.start();
    else running = app.run().then(() => process.exit());
    return {};
  },
  stop: async () => (await app.stop(), {}),
  verify: ({ secrets, headers, body }) => new Webhook(secrets).verify(headers, body).then(({ id, type }) => ({ id, type })),
};

createInterface({ input: process.stdin }).on("line", async (text) => {
  const { n, do: name, ...line } = JSON.parse(text);
  try {
    if (name === "app") app = new App(line);
    app ??= new App();
    const ok = await calls[name](line);
    process.stdout.write(`{"n":${n},"ok":${JSON.stringify(snake(ok) ?? null)}}\n`);
  } catch (error) {
    say({ n, error: failed(error) });
  }
}).on("close", () => running ?? process.exit());
