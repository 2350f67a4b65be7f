// One case of BullMQ (npm), once: prints what came out as one line of JSON, as the program in ../src does.
// node bullmq.mjs bullmq CASE --url redis://127.0.0.1:PORT --count N [--rate N] [--limit SECONDS]

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";

const BULK = 1_000;
const IN_FLIGHT = 64;
const CONCURRENCY = 128;
const HOUR_MS = 3_600_000;
const SETTLED_MS = 2_000;
const LOOK_MS = 2;
const TICK_MS = 10;
const LEAD_MS = 4_000;

const options = { url: {}, pid: {}, count: {}, rate: { default: "0" }, limit: { default: "60" } };
for (const option of Object.values(options)) option.type = "string";
const { positionals, values } = parseArgs({ options, allowPositionals: true });
const count = Number(values.count);
const limitMs = Number(values.limit) * 1_000;
const { hostname: host, port } = new URL(values.url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection });

function message(number) {
  return {
    order: `order-${String(number).padStart(10, "0")}`,
    customer: `customer-${String(number).padStart(8, "0")}`,
    reason: "the payment did not arrive in time",
    note: "goods reserved in warehouse 17, shelf 120; release them, then write to the customers.",
  };
}

// Where the worker notes which tasks it was given, and when.
class Board {
  constructor() {
    this.dueMs = new Array(count).fill(0);
    this.starts = new Array(count).fill(0);
    this.lateUs = [];
    this.all = new Promise((resolve) => {
      this.reached = resolve;
    });
  }

  started(number) {
    const nowMs = performance.now();
    this.starts[number] += 1;
    if (this.starts[number] > 1) return;
    this.lateUs.push(Math.round((nowMs - this.dueMs[number]) * 1_000));
    if (this.lateUs.length === count) this.reached(true);
  }

  wait(ms) {
    return Promise.race([this.all, sleep(ms, false, { ref: false })]);
  }

  figures() {
    const sorted = this.lateUs.sort((a, b) => a - b);
    const percentile = (p) => sorted[Math.max(Math.ceil((sorted.length * p) / 100) - 1, 0)] ?? null;
    return {
      tasks: count,
      ran: sorted.length,
      repeats: this.starts.reduce((sum, starts) => sum + Math.max(starts - 1, 0), 0),
      early: sorted.filter((us) => us < 0).length,
      min: sorted[0] ?? null,
      p50: percentile(50),
      p90: percentile(90),
      p99: percentile(99),
      max: sorted.at(-1) ?? null,
    };
  }
}

function submit(number, delay) {
  return queue.add("task", message(number), { delay });
}

async function submitAll(from, to, delayOf) {
  for (let first = from; first < to; first += BULK) {
    const jobs = [];
    for (let number = first; number < Math.min(first + BULK, to); number += 1) {
      jobs.push({ name: "task", data: message(number), opts: { delay: delayOf(number) } });
    }
    await queue.addBulk(jobs);
  }
}

async function work(board) {
  const number = (job) => Number(job.data.order.slice("order-".length));
  const run = async (job) => board.started(number(job));
  const worker = new Worker("bench", run, { connection, concurrency: CONCURRENCY });
  worker.on("error", () => {});
  await worker.waitUntilReady();
}

function rate(startedMs) {
  return { rate: count / ((performance.now() - startedMs) / 1_000) };
}

async function submitSingly() {
  const startedMs = performance.now();
  let next = 0;
  const caller = async () => {
    while (next < count) await submit(next++, HOUR_MS);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  return rate(startedMs);
}

async function submitInBulk() {
  const startedMs = performance.now();
  await submitAll(0, count, () => HOUR_MS);
  return rate(startedMs);
}

async function drain() {
  await submitAll(0, count, () => 0);
  const board = new Board();
  const startedMs = performance.now();
  await work(board);
  const hasRun = await board.wait(limitMs);
  let left = count;
  while (performance.now() - startedMs < limitMs) {
    const counts = await queue.getJobCounts("wait", "active", "delayed");
    left = counts.wait + counts.active + counts.delayed;
    if (hasRun && left === 0) return rate(startedMs);
    await sleep(LOOK_MS);
  }
  const ran = board.lateUs.length;
  return { stopped: `${ran} of ${count} ran, ${left} were not settled, in ${values.limit}s` };
}

async function lateness() {
  const board = new Board();
  await work(board);
  const gapMs = 1_000 / Number(values.rate);
  const startedMs = performance.now();
  const sent = [];
  for (let number = 0; number < count; number += 1) {
    const waitMs = startedMs + number * gapMs - performance.now();
    if (waitMs > 0) await sleep(Math.max(waitMs, TICK_MS));
    const delay = 1_000 + Math.floor(Math.random() * 4_001);
    board.dueMs[number] = performance.now() + delay;
    sent.push(submit(number, delay));
  }
  await Promise.all(sent);
  await board.wait(5_000 + limitMs);
  return { lateness_us: board.figures() };
}

async function herd() {
  const board = new Board();
  await work(board);
  const due = performance.now() + LEAD_MS;
  await submitAll(0, count, (number) => {
    const delay = Math.max(Math.ceil(due - performance.now()), 0);
    board.dueMs[number] = performance.now() + delay;
    return delay;
  });
  const sentInTime = performance.now() < due;
  await board.wait(due - performance.now() + limitMs);
  return { herd: { ...board.figures(), sent_in_time: sentInTime } };
}

async function memory() {
  const redis = new IORedis(connection);
  const used = async () => Number(/used_memory:(\d+)/.exec(await redis.info("memory"))[1]);
  const spread = () => HOUR_MS + Math.floor(Math.random() * 9 * HOUR_MS);
  await submitAll(0, BULK, () => HOUR_MS);
  await sleep(SETTLED_MS);
  const before = await used();
  await submitAll(0, count, spread);
  await sleep(SETTLED_MS);
  return { bytes: ((await used()) - before) / count };
}

const cases = {
  "submit-in-bulk": submitInBulk,
  "submit-singly": submitSingly,
  drain,
  lateness,
  memory,
  herd,
};
const outcome = await cases[positionals[1]]().catch((error) => ({ failed: String(error) }));
console.log(JSON.stringify(outcome));
process.exit(0);
