// One case of BullMQ (npm), once: prints what came out as one line of JSON, as the program in ../src does.
// node bullmq.mjs bullmq CASE --url redis://127.0.0.1:PORT --count N [--rate N] [--limit SECONDS]

import { setTimeout as sleep } from "node:timers/promises";
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";
import { BULK, CONCURRENCY, HOUR_MS, count, message, numberOf, run, url } from "./bench.mjs";

const SETTLED_MS = 2_000;

const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const queue = new Queue("bench", { connection });

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
  const execute = async (job) => board.started(numberOf(job.data));
  const worker = new Worker("bench", execute, { connection, concurrency: CONCURRENCY });
  worker.on("error", () => {});
  await worker.waitUntilReady();
}

async function unsettled() {
  const counts = await queue.getJobCounts("wait", "active", "delayed");
  return counts.wait + counts.active + counts.delayed;
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

await run({ submit, submitAll, work, unsettled }, { memory });
