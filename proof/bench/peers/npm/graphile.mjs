// One case of Graphile Worker, once: prints what came out as one line of JSON, as the program in ../src does.
// node graphile.mjs graphile CASE --url postgres://USER@127.0.0.1:PORT/DATABASE --count N [--rate N] [--limit SECONDS]

import { Logger, makeWorkerUtils, run as start } from "graphile-worker";
import pg from "pg";
import { BULK, CONCURRENCY, IN_FLIGHT, message, numberOf, run, url } from "./bench.mjs";

// How often it looks for tasks that become due; by itself every 2 s.
const POLL_MS = 20;

// A connection for each caller.
const pgPool = new pg.Pool({ connectionString: url.href, max: IN_FLIGHT });
pgPool.on("error", () => {});
pgPool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();

// No date: due at once.
const runAt = (delay) => (delay === 0 ? undefined : new Date(Date.now() + delay));

function submit(number, delay) {
  return utils.addJob("bench", message(number), { runAt: runAt(delay) });
}

async function submitAll(from, to, delayOf) {
  for (let first = from; first < to; first += BULK) {
    const jobs = [];
    for (let number = first; number < Math.min(first + BULK, to); number += 1) {
      jobs.push({ identifier: "bench", payload: message(number), runAt: runAt(delayOf(number)) });
    }
    await utils.addJobs(jobs);
  }
}

// Fetches and completes in batches, as its guide to performance says.
async function work(board) {
  const worker = { localQueue: { size: CONCURRENCY + 1 }, completeJobBatchDelay: 0 };
  await start({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: { bench: async (payload) => board.started(numberOf(payload)) },
    preset: { worker: { ...worker, concurrentJobs: CONCURRENCY, pollInterval: POLL_MS } },
  });
}

async function unsettled() {
  const { rows } = await pgPool.query("SELECT count(*)::int AS left FROM graphile_worker.jobs");
  return rows[0].left;
}

await run({ submit, submitAll, work, unsettled });
