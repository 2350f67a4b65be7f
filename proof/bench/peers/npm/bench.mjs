// What the programs of Node.js share: their options, the message, and the board.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

export const BULK = 1_000;
export const IN_FLIGHT = 64;
export const CONCURRENCY = 128;
export const HOUR_MS = 3_600_000;
export const LOOK_MS = 2;
const TICK_MS = 10;
const LEAD_MS = 4_000;

const options = { url: {}, pid: {}, count: {}, rate: { default: "0" }, limit: { default: "60" } };
for (const option of Object.values(options)) option.type = "string";
const { positionals, values } = parseArgs({ options, allowPositionals: true });
export const url = new URL(values.url);
export const count = Number(values.count);
export const limitMs = Number(values.limit) * 1_000;

export function message(number) {
  return {
    order: `order-${String(number).padStart(10, "0")}`,
    customer: `customer-${String(number).padStart(8, "0")}`,
    reason: "the payment did not arrive in time",
    note: "goods reserved in warehouse 17, shelf 120; release them, then write to the customers.",
  };
}

export function numberOf(message) {
  return Number(message.order.slice("order-".length));
}

// Where the worker notes which tasks it was given, and when.
export class Board {
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

function rate(startedMs) {
  return { rate: count / ((performance.now() - startedMs) / 1_000) };
}

async function submitSingly(peer) {
  const startedMs = performance.now();
  let next = 0;
  const caller = async () => {
    while (next < count) await peer.submit(next++, HOUR_MS);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  return rate(startedMs);
}

async function submitInBulk(peer) {
  const startedMs = performance.now();
  await peer.submitAll(0, count, () => HOUR_MS);
  return rate(startedMs);
}

async function drain(peer) {
  await peer.submitAll(0, count, () => 0);
  const board = new Board();
  const startedMs = performance.now();
  await peer.work(board);
  const hasRun = await board.wait(limitMs);
  let left = count;
  while (performance.now() - startedMs < limitMs) {
    left = await peer.unsettled();
    if (hasRun && left === 0) return rate(startedMs);
    await sleep(LOOK_MS);
  }
  const ran = board.lateUs.length;
  return { stopped: `${ran} of ${count} ran, ${left} were not settled, in ${values.limit}s` };
}

async function lateness(peer) {
  const board = new Board();
  await peer.work(board);
  const gapMs = 1_000 / Number(values.rate);
  const startedMs = performance.now();
  const sent = [];
  for (let number = 0; number < count; number += 1) {
    const waitMs = startedMs + number * gapMs - performance.now();
    if (waitMs > 0) await sleep(Math.max(waitMs, TICK_MS));
    const delay = 1_000 + Math.floor(Math.random() * 4_001);
    board.dueMs[number] = performance.now() + delay;
    sent.push(peer.submit(number, delay));
  }
  await Promise.all(sent);
  await board.wait(5_000 + limitMs);
  return { lateness_us: board.figures() };
}

async function herd(peer) {
  const board = new Board();
  await peer.work(board);
  const due = performance.now() + LEAD_MS;
  await peer.submitAll(0, count, (number) => {
    const delay = Math.max(Math.ceil(due - performance.now()), 0);
    board.dueMs[number] = performance.now() + delay;
    return delay;
  });
  const sentInTime = performance.now() < due;
  await board.wait(due - performance.now() + limitMs);
  return { herd: { ...board.figures(), sent_in_time: sentInTime } };
}

const CASES = {
  prepare: async () => ({ rate: 0 }),
  "submit-in-bulk": submitInBulk,
  "submit-singly": submitSingly,
  drain,
  lateness,
  herd,
};

// Does the case of the command line, one of these or one of the peer's own, and ends the program.
export async function run(peer, own = {}) {
  const word = positionals[1];
  const one = own[word] ?? CASES[word];
  const outcome = await one(peer).catch((error) => ({ failed: String(error) }));
  console.log(JSON.stringify(outcome));
  process.exit(0);
}
