import { parentPort, workerData } from "node:worker_threads";
import { Heart, type Order } from "./heartbeat.js";

const heart = new Heart({ ...workerData, fetch: globalThis.fetch }, (beat) => parentPort!.postMessage(beat));
parentPort!.on("message", (order: Order) => heart.take(order));
// The first request loads the client of Node, which takes its time.
await fetch("data:,").catch(() => {});
parentPort!.postMessage("ready");
